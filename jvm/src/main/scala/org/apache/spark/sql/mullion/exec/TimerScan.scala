package org.apache.spark.sql.mullion.exec

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.Family

import dev.mullion.windows.BatchClock

/** Goes through the keys whose timers are due by the clock of a batch, and notes when the next one is.
  *
  * @param dueAt
  *   where a timer says when it is due
  */
private[exec] abstract class TimerScan(timers: Family, dueAt: Int, clock: BatchClock, counts: PaneCounts)
// What is in state had not closed before this batch.
    extends DueScan(timers.scan(clock.before)) {
  private var waiting = PaneCounts.Never

  /** Notes that a key that was due waits again, until `due`. */
  protected final def waitsUntil(due: Long): Unit = waiting = Math.min(waiting, due)

  override protected def isDue(timer: UnsafeRow): Boolean = {
    val due = timer.getLong(dueAt)
    if (!clock.closes(due)) counts.nextClose = Math.min(waiting, due)
    clock.closes(due)
  }

  override protected def exhausted(): Unit = counts.nextClose = waiting
}
