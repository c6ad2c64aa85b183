package dev.mullion.windows

import dev.mullion.MullionException

/** When the panes of a window fire and close, and what becomes of rows that are late for them: the rules of the pane
  * contract that need no data. All times in microseconds.
  *
  * {{{
  *   open                 end              end + allowedLateness
  *    |---- early, early --|------ early ---|  close: once, and last
  *                                          |  rows of later batches are late
  * }}}
  */
sealed trait PaneRules extends Product with Serializable {
  def window: WindowSpec

  /** How long after its end a pane stays open, >= 0. */
  def allowedLateness: Long

  def early: Option[EarlyFiring]

  def late: LatePolicy

  def refinements: Refinements

  def clock: PaneClock

  if (refinements.onTime && allowedLateness == 0)
    throw MullionException.invalid(
      "on_time adds nothing here: without allowed lateness a pane closes at its end. Give allowed_lateness, such as " +
        "'10 minutes', or leave on_time out."
    )

  if (!refinements.accumulate && !firesOpen)
    throw MullionException.invalid(
      "accumulate=False says what firings before the close leave to the next one, and there are none. Add early= or " +
        "on_time=True, or leave accumulate out."
    )

  if (allowedLateness < 0)
    throw MullionException.invalid(
      s"allowed_lateness is ${Duration.describe(allowedLateness)}: a pane cannot close before its end. " +
        "Give a duration of 0 or more, such as '10 minutes'."
    )

  /** Whether panes may fire before they close, so that it is noted when they did. */
  def firesOpen: Boolean = early.isDefined || refinements.fires

  def onProcessingTime: Boolean = clock == PaneClock.ProcessingTime

  /** What a pane fires for rows that it got in the batch of `batch`; not what the interval or the clock alone makes it
    * fire.
    *
    * @param rows
    *   how many came since it opened or last fired
    * @param wasOnTime
    *   whether it has fired `on_time`
    */
  def afterRows(end: Long, rows: Long, wasOnTime: Boolean, batch: BatchClock): Option[FiringKind] =
    if (rows == 0 || batch.closes(closeDue(end))) None
    else if (wasOnTime) PaneRules.update
    else if (isOnTime(end, batch)) PaneRules.onTime
    else if (refinements.count.exists(rows >= _)) PaneRules.early
    else None

  /** Whether a pane that ends at `end`, does not close and has not fired `on_time` does so in the batch of `batch`. */
  def isOnTime(end: Long, batch: BatchClock): Boolean = refinements.onTime && batch.now >= end

  /** When something happens to a pane by the clock alone, but for interval firings. */
  def nextDue(end: Long, wasOnTime: Boolean): Long = if (refinements.onTime && !wasOnTime) end else closeDue(end)

  /** When a pane that ends at `end` closes. */
  def closeDue(end: Long): Long = TimeMath.plus(end, allowedLateness)

  /** What is told downstream of event time: no close to come ends at or before it. Never before the epoch, as Spark's.
    */
  def outputWatermark(clock: Long): Long = Math.max(0L, TimeMath.minus(clock, allowedLateness))

  def describe: String = {
    val close =
      if (allowedLateness == 0) "closes at its end" else s"closes ${Duration.describe(allowedLateness)} after its end"
    val lateRows = late match {
      case LatePolicy.Drop   => "late rows counted and dropped"
      case LatePolicy.Emit   => "late rows emitted"
      case LatePolicy.Reopen => "late rows reopen panes"
    }
    val on = Option.when(onProcessingTime)("on processing time")
    val fires = early.map(_.describe) ++ refinements.describe
    (Seq(window.describe) ++ on ++ Seq(close) ++ fires ++ Option.unless(onProcessingTime)(lateRows)).mkString(", ")
  }
}

object PaneRules {
  private val early: Option[FiringKind] = Some(FiringKind.Early)
  private val onTime: Option[FiringKind] = Some(FiringKind.OnTime)
  private val update: Option[FiringKind] = Some(FiringKind.Update)

  def apply(
      window: WindowSpec,
      allowedLateness: Long,
      early: Option[EarlyFiring],
      late: LatePolicy,
      refinements: Refinements = Refinements.none,
      clock: PaneClock = PaneClock.EventTime
  ): PaneRules =
    window match {
      case aligned: AlignedWindow => AlignedRules(aligned, allowedLateness, early, late, refinements, clock)
      case session: SessionWindow => SessionRules(session, allowedLateness, early, late, refinements, clock)
      case _: CustomWindow if clock == PaneClock.ProcessingTime =>
        throw MullionException.unsupported(
          "Custom windows need event time: on processing time (time=None) no row is late, and a row may bring ranges that " +
            "ended before it came. Name the event time of the rows, as in time='ts'."
        )
      case custom: CustomWindow => CustomRules(custom, allowedLateness, early, late, refinements, clock)
    }
}

/** The rules for windows that are aligned to the epoch, so that all of a pane but its rows follows from its number. */
final case class AlignedRules(
    window: AlignedWindow,
    allowedLateness: Long,
    early: Option[EarlyFiring],
    late: LatePolicy,
    refinements: Refinements = Refinements.none,
    clock: PaneClock = PaneClock.EventTime
) extends PaneRules {
  val grid: SliceGrid = new SliceGrid(window)

  /** Whether a row is kept once for all the windows that hold it. Not where a firing takes away what it shows, for they
    * fire at other times.
    */
  def sharesSlices: Boolean = window.overlaps && refinements.accumulate

  /** When the pane of window number `window` closes. */
  def windowCloseDue(window: Long): Long = closeDue(grid.windowEnd(window))

  /** The first window whose pane closes at `due`: the reverse of `windowCloseDue`. At the end of time several do. */
  def windowThatCloses(due: Long): Long = {
    val first = grid.windowAt(TimeMath.minus(TimeMath.minus(due, allowedLateness), window.size))
    if (windowCloseDue(first) < due) first + 1 else first
  }

  /** Whether `ts` falls into a window at all. */
  def inWindow(ts: Long): Boolean =
    !window.hasGaps || TimeMath.pastGrid(ts, window.slide, window.offset) < window.size

  /** Whether a row at `ts`, which is in a window, is late for all its panes: iff its last one had closed. */
  def isLate(ts: Long, clock: BatchClock): Boolean = clock.hadClosed(closeDue(window.end(window.lastStart(ts))))

  /** The first window that is open at event clock `clock`: the first that does not close at or before it. */
  def firstOpen(clock: Long): Long = grid.firstWindowEndingAfter(TimeMath.minus(clock, allowedLateness))
}

/** The rules for sessions. Which sessions a row touches is a question of state, so that only a row whose own session
  * would be open yet is known not to be late; others may be late.
  */
final case class SessionRules(
    window: SessionWindow,
    allowedLateness: Long,
    early: Option[EarlyFiring],
    late: LatePolicy,
    refinements: Refinements = Refinements.none,
    clock: PaneClock = PaneClock.EventTime
) extends PaneRules {

  /** Whether the session of a row alone had closed by `clock`, so that it is late unless it touches an open session. */
  def mayBeLate(ts: Long, gap: Long, clock: Long): Boolean = clock >= closeDue(TimeMath.plus(ts, gap))

  /** Which rows may be aggregated before their sessions are known: those of one number are less than `gap` apart, and
    * so in one session.
    */
  def slice(ts: Long, gap: Long): Long = Math.floorDiv(ts, gap)
}

/** The rules for windows that rows bring: nothing of a pane follows from another, and each closes by its own end. */
final case class CustomRules(
    window: CustomWindow,
    allowedLateness: Long,
    early: Option[EarlyFiring],
    late: LatePolicy,
    refinements: Refinements = Refinements.none,
    clock: PaneClock = PaneClock.EventTime
) extends PaneRules
