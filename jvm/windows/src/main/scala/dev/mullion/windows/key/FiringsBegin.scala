package dev.mullion.windows.key

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.{EarlyFiring, Refinements}

/** The transition of open panes to changed firing rules, in the first batch under them. A pane without recorded firings
  * counts as just fired: its interval and its rows count from that batch.
  *
  * {{{
  *   opened, rows        | first batch under Early(every=10)          + 10
  *   no record           | recorded: 0 firings, clocks as of now      early, if there are rows since
  * }}}
  *
  * @param clock
  *   of that batch
  * @param fired
  *   whether firings were recorded so far
  * @param early
  *   the previous early firings
  */
final case class FiringsBegin(
    clock: BatchClock,
    fired: Boolean,
    early: Option[EarlyFiring],
    was: Refinements,
    now: Refinements
) {

  /** The number of rows since a pane's last firing. A new count only distinguishes none from some. */
  def rowsSince(rows: Long): Long = if (now.countsRows && !was.countsRows) Math.min(rows, 1L) else rows

  /** A pane that was on time counts as any other once `on_time` is off. */
  def wasOnTime(before: Boolean): Boolean = before && now.onTime
}
