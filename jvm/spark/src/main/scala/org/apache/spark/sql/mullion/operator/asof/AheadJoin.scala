package org.apache.spark.sql.mullion.operator.asof

import org.apache.spark.sql.catalyst.expressions.{Literal, UnsafeRow}
import org.apache.spark.sql.mullion.expressions.rows.Projections
import org.apache.spark.sql.mullion.state.record.{FamilyScan, StatePartition}

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.AsOfDirection
import dev.mullion.windows.spec.TimeMath

/** Matches each left row with the first right row after it, or with the nearest one. Right rows are in state by key and
  * time as soon as they come. A left row is due once its tolerance has passed, and then reads the range of times that
  * match:
  *
  * {{{
  *   rights of k1    11:57   11:59       12:01   12:07
  *   left row                     12:00                 nearest: reads 11:59, then 12:01
  * }}}
  *
  * State has no reverse scans. The last row before a time is therefore searched in a range that grows until it has one.
  */
private[asof] final class AheadJoin(
    program: AsOfProgram,
    clock: BatchClock,
    partition: StatePartition,
    counts: AsOfCounts
) extends AsOfEngine(program, clock, partition, counts) {
  import AheadJoin._

  private val rights = partition.family(program.state.rights)
  private val isNearest = rules.direction == AsOfDirection.Nearest
  private val timeInKey = program.keys.length
  private val (keep, tolerance) = (rules.keep.get, rules.tolerance.get)

  private val keyOfInput = Projections(program.keys.map(ofInput))
  private val valueOfInput = Projections(Seq(program.time, program.right).map(ofInput))
  private val from = Projections(keysFrom(0) :+ Literal(0L))
  private val until = Projections(keysFrom(0) :+ Literal(0L))
  private val behind = UnsafeRow.createFromByteArray(64, 2)
  private val ahead = UnsafeRow.createFromByteArray(64, 2)
  // The length of the range before a left row that is searched first: the last search found a row in half of it.
  private var reach = 1L

  private def at(time: Long, key: UnsafeRow): UnsafeRow = {
    val row = from(key)
    row.setLong(timeInKey, time)
    row
  }

  private def range(start: Long, end: Long, key: UnsafeRow): FamilyScan = {
    val last = until(key)
    last.setLong(timeInKey, end)
    rights.look(at(start, key), last)
  }

  override protected def arrives(time: Long, row: UnsafeRow): Unit = {
    val key = keyOfInput(row)
    val record = at(time, key)
    if (rights.look(record).isAbsent) {
      rights.insert(record, valueOfInput(row))
      rules.needless(time).foreach(expires(_, key))
    } else rights.update(record, valueOfInput(row))
  }

  override protected def passes(time: Long, key: UnsafeRow, value: UnsafeRow): Unit =
    throw new IllegalStateException("right rows of this join do not wait")

  override protected def matchOf(time: Long, key: UnsafeRow): UnsafeRow = {
    val hasBehind = isNearest && findBehind(time, key)
    val hasAhead = readAhead(time, key)
    if (hasBehind && (!hasAhead || time - behind.getLong(0) <= ahead.getLong(0) - time)) behind
    else if (hasAhead) ahead
    else noMatch
  }

  private def readAhead(time: Long, key: UnsafeRow): Boolean = {
    val scan = range(rules.startAhead(time), rules.endAhead(time), key)
    try {
      val exists = scan.next()
      if (exists) ahead.copyFrom(scan.value.untilNextCall)
      exists
    } finally scan.close()
  }

  /** Searches the last row before a time. Returns whether there is one. */
  private def findBehind(time: Long, key: UnsafeRow): Boolean = {
    var length = reach
    var exists = readBehind(length, time, key)
    while (!exists && length < tolerance) {
      length = TimeMath.times(length, Growth)
      exists = readBehind(length, time, key)
    }
    reach = if (exists) 2 * (time - behind.getLong(0)) + 1 else Math.min(TimeMath.times(reach, Growth), tolerance + 1)
    exists
  }

  /** Reads the last row of a range before a time. Returns whether there is one. */
  private def readBehind(length: Long, time: Long, key: UnsafeRow): Boolean = {
    val start = Math.max(rules.first(time), TimeMath.minus(time, length))
    val scan = range(start, rules.endBehind(time), key)
    var exists = false
    try
      while (scan.next()) {
        behind.copyFrom(scan.value.untilNextCall)
        exists = true
      }
    finally scan.close()
    exists
  }

  override protected def expired(due: Long, key: UnsafeRow): Long = {
    rights.remove(at(due - keep, key))
    AsOfEngine.Never
  }
}

private object AheadJoin {
  private final val Growth = 8L
}
