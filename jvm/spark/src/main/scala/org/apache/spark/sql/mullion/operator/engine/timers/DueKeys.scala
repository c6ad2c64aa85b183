package org.apache.spark.sql.mullion.operator.engine.timers

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.operator.engine.Iterators.Rows
import org.apache.spark.sql.mullion.operator.engine.PaneCounts
import org.apache.spark.sql.mullion.state.record.{Family, KeyOrder}
import org.apache.spark.sql.types.DataType

import dev.mullion.windows.clock.BatchClock

/** Iterates over the keys whose timers are due by the clock of a batch, removes their timers, and records the next due
  * time.
  *
  * Timers are in order of time, and records of keys in order of keys. Some thousands of timers are therefore read at
  * once, and their keys processed in the order of their records:
  *
  * {{{
  *   timers   12:00 k7   12:00 k2   12:01 k9   12:03 k1   |   12:04 k5 ...
  *   keys     k1  k2  k7  k9                              |   ...
  * }}}
  *
  * @param dueAt
  *   the column of a timer with its due time
  * @param keyTypes
  *   of the columns of a key
  * @param atOnce
  *   the number of timers that are read at once
  */
private[operator] abstract class DueKeys[K](
    timers: Family,
    dueAt: Int,
    clock: BatchClock,
    counts: PaneCounts,
    keyTypes: Seq[DataType],
    atOnce: Int = RadixOrder.AtOnce
)(keyOf: UnsafeRow => UnsafeRow) {
  // Entries in state had not closed before this batch.
  private val scan = timers.scan(Math.min(clock.before, clock.closedBefore))
  private val numberOf = new KeyOrder(keyTypes, 0)
  private val timersRead = new java.util.ArrayList[UnsafeRow]
  // Their positions, in the order of the keys' records.
  private val inOrder = new RadixOrder
  private var isScanned = false
  private var nextDue = PaneCounts.Never

  /** Loads a key, whose timer is gone. */
  protected def load(key: UnsafeRow): K

  /** The firings of a key. */
  protected def fire(active: K): Iterator[InternalRow]

  /** Writes a key. Returns its next due time, or `PaneCounts.Never`. */
  protected def store(active: K): Long

  /** The firings of the keys in turn: each is loaded, fires, and is stored before the next one is loaded. */
  def firing(): Iterator[InternalRow] =
    Iterator
      .continually(take())
      .takeWhile(_ > 0)
      .flatMap(Iterator.range(0, _))
      .flatMap(at => fired(load(timersRead.get(inOrder(at).toInt))))
      .andThen(counts.nextClose = nextDue)

  private def fired(active: K): Iterator[InternalRow] = fire(active).andThen(waitsUntil(store(active)))

  private def waitsUntil(due: Long): Unit = nextDue = Math.min(nextDue, due)

  /** Reads the next timers. Returns their number. */
  private def take(): Int = {
    timersRead.clear()
    inOrder.clear()
    while (!isScanned && timersRead.size < atOnce) {
      val isOn = scan.next()
      if (isOn && clock.closes(scan.key.getLong(dueAt))) {
        val key = keyOf(scan.key.untilNextCall).copy()
        inOrder.add(timersRead.size.toLong, numberOf(key))
        timersRead.add(key)
        scan.remove()
      } else {
        if (isOn) waitsUntil(scan.key.getLong(dueAt))
        isScanned = true
        scan.close()
      }
    }
    inOrder.sort()
    timersRead.size
  }
}
