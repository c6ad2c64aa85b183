package org.apache.spark.sql.mullion.exec.panes.keys

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.exec.panes.PaneCounts
import org.apache.spark.sql.mullion.exec.panes.Steps.Rows
import org.apache.spark.sql.mullion.state.records.{Family, KeyOrder}
import org.apache.spark.sql.types.DataType

import dev.mullion.windows.clock.BatchClock

/** Goes through the keys whose timers are due by the clock of a batch, takes their timers away, and notes when the next
  * one is due.
  *
  * Timers come in order of time; what is known of their keys lies in order of keys. So some thousands of timers are
  * taken at once, and their keys looked after in the order in which they lie:
  *
  * {{{
  *   timers   12:00 k7   12:00 k2   12:01 k9   12:03 k1   |   12:04 k5 ...
  *   keys     k1  k2  k7  k9                              |   ...
  * }}}
  *
  * @param dueAt
  *   where a timer says when it is due
  * @param keyTypes
  *   of the columns of a key
  * @param atOnce
  *   how many timers are taken at once
  */
private[exec] abstract class DueKeys[K](
    timers: Family,
    dueAt: Int,
    clock: BatchClock,
    counts: PaneCounts,
    keyTypes: Seq[DataType],
    atOnce: Int = RadixOrder.AtOnce
)(keyOf: UnsafeRow => UnsafeRow) {
  // What is in state had not closed before this batch.
  private val scan = timers.scan(Math.min(clock.before, clock.closedBefore))
  private val numberOf = new KeyOrder(keyTypes, 0)
  private val taken = new java.util.ArrayList[UnsafeRow]
  // Their positions, in the order in which the keys lie.
  private val inOrder = new RadixOrder
  private var isScanned = false
  private var nextDue = PaneCounts.Never

  /** What is known of a key, whose timer is gone. */
  protected def load(key: UnsafeRow): K

  /** What it gives. */
  protected def fire(active: K): Iterator[InternalRow]

  /** Writes it back; when it is due next, or `PaneCounts.Never`. */
  protected def store(active: K): Long

  /** What the keys give, one after another: each is loaded, fires, and is stored before the next one is loaded. */
  def firing(): Iterator[InternalRow] =
    Iterator
      .continually(take())
      .takeWhile(_ > 0)
      .flatMap(Iterator.range(0, _))
      .flatMap(at => fired(load(taken.get(inOrder(at).toInt))))
      .andThen(counts.nextClose = nextDue)

  private def fired(active: K): Iterator[InternalRow] = fire(active).andThen(waitsUntil(store(active)))

  private def waitsUntil(due: Long): Unit = nextDue = Math.min(nextDue, due)

  /** Takes the timers that are next; how many. */
  private def take(): Int = {
    taken.clear()
    inOrder.clear()
    while (!isScanned && taken.size < atOnce) {
      val isOn = scan.next()
      if (isOn && clock.closes(scan.key.getLong(dueAt))) {
        val key = keyOf(scan.key.untilNextCall).copy()
        inOrder.add(taken.size.toLong, numberOf(key))
        taken.add(key)
        scan.remove()
      } else {
        if (isOn) waitsUntil(scan.key.getLong(dueAt))
        isScanned = true
        scan.close()
      }
    }
    inOrder.sort()
    taken.size
  }
}
