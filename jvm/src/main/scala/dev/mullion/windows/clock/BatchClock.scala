package dev.mullion.windows.clock

/** The clocks of one micro-batch, as every task of it sees them (microseconds). Nothing in a task asks the system for
  * the time, so a batch that is tried again decides as it did before.
  *
  * {{{
  *   batch        N-1          N
  *   event clock  `before`     `now`       rows of N are late by `before`, panes close by `now`
  * }}}
  *
  * @param before
  *   the event clock of the batch before this one; in batch 0, before all time, so that no row is late there
  * @param now
  *   the event clock of this batch
  * @param wall
  *   the batch's timestamp
  * @param rowsCame
  *   whether a source had rows for this batch
  * @param number
  *   of the batch; a retried one has the same
  * @param wallBefore
  *   the timestamp of the batch before this one, where anything goes by the wall clock alone
  * @param inputEnds
  *   whether the input ends with it, so that all that is open closes in it whatever the clock says
  * @param closedDue
  *   by when panes were due that had closed before it, where `before` does not say that: since the lateness has changed
  * @param rulesBegin
  *   whether it is the first under rules that have changed, so that open panes that have ended may yet have to be on
  *   time
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
    rulesBegin: Boolean = false
) {

  /** What panes that had closed before this batch were due by. */
  def closedBefore: Long = closedDue.getOrElse(before)

  /** What panes that have closed with it are due by. */
  def closedNow: Long = closedDue.fold(now)(Math.max(_, now))

  /** Whether a pane that closes at `due` had closed before this batch, so that its rows are late. Before the first
    * batch none had, not even one that ends before time begins.
    */
  def hadClosed(due: Long): Boolean = closedBefore >= due && before != BatchClock.BeforeAllTime

  /** Whether a pane that closes at `due` closes in this batch. */
  def closes(due: Long): Boolean = now >= due

  /** The same batch for what goes by the wall clock alone. */
  def byWall: BatchClock = copy(before = wallBefore, now = wall, closedDue = None)
}

object BatchClock {

  /** The event clock before batch 0. */
  val BeforeAllTime: Long = Long.MinValue
}
