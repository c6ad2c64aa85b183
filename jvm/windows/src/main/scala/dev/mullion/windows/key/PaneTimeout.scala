package dev.mullion.windows.key

import dev.mullion.windows.spec.TimeMath

/** The wall time after the first row of a pane at which it closes.
  *
  * @param after
  *   microseconds
  * @param wall
  *   the wall clock of the batch
  */
final case class PaneTimeout(after: Long, wall: Long) {

  /** The time at which a pane that opened at `opened` closes. */
  def due(opened: Long): Long = TimeMath.plus(opened, after)
}
