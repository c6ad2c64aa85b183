package org.apache.spark.sql.mullion.operator.asof

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.record.StatePartition

import dev.mullion.windows.clock.BatchClock

/** Matches each left row with the last right row before it. Right rows wait like left rows, and each that the clock
  * passes replaces the latest one of its key, so a left row needs one lookup.
  *
  * With a tolerance, a key has one expiry. If a newer row has replaced the latest one since, the expiry moves.
  */
private[asof] final class BackwardJoin(
    program: AsOfProgram,
    clock: BatchClock,
    partition: StatePartition,
    counts: AsOfCounts
) extends AsOfEngine(program, clock, partition, counts) {
  private val latest = partition.family(program.state.latest)

  override protected def arrives(time: Long, row: UnsafeRow): Unit = await(time, row, isFirst = rules.allowExact)

  override protected def passes(time: Long, key: UnsafeRow, value: UnsafeRow): Unit = {
    val before = latest.look(key)
    if (before.isAbsent) {
      latest.insert(key, value)
      rules.needless(time).foreach(expires(_, key))
    } else if (before.getLong(0) <= time) latest.update(key, value)
    // The clock had passed it when it came, and a later row of the key too.
    else counts.rowsLate += 1
  }

  override protected def matchOf(time: Long, key: UnsafeRow): UnsafeRow = {
    val last = latest.look(key)
    if (last.isAbsent || !rules.reaches(last.getLong(0), time)) noMatch else last.untilNextCall
  }

  override protected def expired(due: Long, key: UnsafeRow): Long = {
    val next = rules.needless(latest.look(key).getLong(0)).get
    if (clock.closes(next)) {
      latest.remove(key)
      AsOfEngine.Never
    } else {
      expires(next, key)
      next
    }
  }
}
