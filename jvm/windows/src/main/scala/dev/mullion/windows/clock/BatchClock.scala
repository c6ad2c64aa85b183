package dev.mullion.windows.clock

/** The clocks of one micro-batch, the same for all its tasks (microseconds). Tasks never read the system clock, so a
  * retried batch makes the same decisions.
  *
  * {{{
  *   batch        N-1          N
  *   event clock  `before`     `now`       rows of N are late by `before`, panes close by `now`
  * }}}
  *
  * @param before
  *   the event clock of the previous batch; in batch 0, before all time, so that no row is late there
  * @param now
  *   the event clock of this batch
  * @param wall
  *   the batch's timestamp
  * @param rowsCame
  *   whether a source had rows for this batch
  * @param number
  *   of the batch; a retried one has the same
  * @param wallBefore
  *   the timestamp of the previous batch, where panes follow the wall clock alone
  * @param inputEnds
  *   whether the input ends with this batch, so that all open panes close in it
  * @param closedDue
  *   the due time up to which panes had closed before, where a changed lateness makes `before` unusable for that
  * @param ahead
  *   the latest time of rows that are not too far ahead of the wall clock
  * @param firstReading
  *   the first reading of the stream's event clock; the end of time if it has none yet, before all time if that does
  *   not matter or is unknown
  * @param rulesBegin
  *   whether it is the first batch under changed rules, so that open panes past their end may have to fire on time
  */
final case class BatchClock(
    before: Long,
    now: Long,
    wall: Long,
    rowsCame: Boolean,
    number: Long = 0L,
    wallBefore: Long = BatchClock.BeforeAllTime,
    inputEnds: Boolean = false,
    closedDue: Option[Long] = None,
    ahead: Long = Long.MaxValue,
    firstReading: Long = BatchClock.BeforeAllTime,
    rulesBegin: Boolean = false
) {

  /** The due time up to which panes had closed before this batch. */
  def closedBefore: Long = closedDue.getOrElse(before)

  /** The due time up to which panes have closed with this batch. */
  def closedNow: Long = closedDue.fold(now)(Math.max(_, now))

  /** True if a pane that closes at `due` had closed before this batch, so that its rows are late. Before the first
    * batch none had, not even one that ends before time begins.
    */
  def hadClosed(due: Long): Boolean = closedBefore >= due && before != BatchClock.BeforeAllTime

  /** True if a pane that closes at `due` closes in this batch. */
  def closes(due: Long): Boolean = now >= due

  /** The same batch for panes that follow the wall clock alone. */
  def byWall: BatchClock = copy(before = wallBefore, now = wall, closedDue = None)
}

object BatchClock {

  /** The event clock before batch 0. */
  val BeforeAllTime: Long = Long.MinValue

  /** For reading state without a batch: no clock has started, and nothing is due. */
  val Inspection: BatchClock = BatchClock(BeforeAllTime, BeforeAllTime, 0L, rowsCame = false)
}
