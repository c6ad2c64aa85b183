package dev.mullion.windows.key

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.{EarlyFiring, Refinements}

/** How open panes take on other rules of firing, with the first batch under them. A pane whose firings were not noted
  * is as if it had just fired: its interval runs from that batch on, and what it fires for are the rows from then on.
  *
  * {{{
  *   opened, rows        | first batch under Early(every=10)          + 10
  *   no note             | noted: fired 0 times, clocks as of now     early, if rows came since
  * }}}
  *
  * @param clock
  *   of that batch
  * @param fired
  *   whether panes fired before they closed, so that it was noted
  * @param early
  *   what they did at intervals
  */
final case class FiringsBegin(
    clock: BatchClock,
    fired: Boolean,
    early: Option[EarlyFiring],
    was: Refinements,
    now: Refinements
) {

  /** How many rows came since a pane fired last, of which a count that is new knows only whether there were any. */
  def rowsSince(rows: Long): Long = if (now.count.isDefined && was.count.isEmpty) Math.min(rows, 1L) else rows

  /** One that was on time is as any other where none is on time any more. */
  def wasOnTime(before: Boolean): Boolean = before && now.onTime
}
