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

  if (allowedLateness < 0)
    throw MullionException.invalid(
      s"allowed_lateness is ${Duration.describe(allowedLateness)}: a pane cannot close before its end. " +
        "Give a duration of 0 or more, such as '10 minutes'."
    )

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
    (Seq(window.describe, close) ++ early.map(_.describe) :+ lateRows).mkString(", ")
  }
}

object PaneRules {
  def apply(window: WindowSpec, allowedLateness: Long, early: Option[EarlyFiring], late: LatePolicy): PaneRules =
    window match {
      case aligned: AlignedWindow => AlignedRules(aligned, allowedLateness, early, late)
      case session: SessionWindow => SessionRules(session, allowedLateness, early, late)
      case custom: CustomWindow   => CustomRules(custom, allowedLateness, early, late)
    }
}

/** The rules for windows that are aligned to the epoch, so that all of a pane but its rows follows from its number. */
final case class AlignedRules(
    window: AlignedWindow,
    allowedLateness: Long,
    early: Option[EarlyFiring],
    late: LatePolicy
) extends PaneRules {
  val grid: SliceGrid = new SliceGrid(window)

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
    late: LatePolicy
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
    late: LatePolicy
) extends PaneRules
