package dev.mullion.windows.rules

import dev.mullion.MullionException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.spec.{Duration, TimeMath}

/** When an open pane fires before it closes: when its clock has moved by `every` (microseconds) since it opened or last
  * fired. The clock is event time while rows come; in a batch without rows, wall time counts too, so that a quiet
  * stream still shows what it has.
  *
  * A pane's readings of both clocks are taken in the batch in which it opens and in each in which it fires. Both clocks
  * only go forward, so panes in the order of their readings are in the order in which they fall due, by either clock.
  *
  * @param every
  *   the interval in microseconds, > 0
  * @param unchanged
  *   whether panes that got no row since they last fired fire too
  * @param byWall
  *   whether wall time alone counts, rows or no rows
  */
final case class EarlyFiring(every: Long, unchanged: Boolean, byWall: Boolean = false) {
  if (every <= 0)
    throw MullionException.invalid(
      s"The early firing interval is ${Duration.describe(every)}: it must be at least 1 microsecond. " +
        "Give a positive duration, such as Early(every='1 minute'), or leave early out."
    )

  /** Whether a pane with these readings fires in the batch of `clock`. */
  def isDue(eventReading: Long, wallReading: Long, clock: BatchClock): Boolean = !clock.inputEnds &&
    ((!byWall && clock.now >= eventDue(eventReading)) ||
      ((byWall || !clock.rowsCame) && clock.wall >= wallDue(wallReading)))

  /** When a pane falls due by event time; at the end of time where that does not count. */
  def eventDue(eventReading: Long): Long = if (byWall) Long.MaxValue else TimeMath.plus(eventReading, every)

  def wallDue(wallReading: Long): Long = TimeMath.plus(wallReading, every)

  def describe: String =
    s"fires early every ${Duration.describe(every)} ${if (byWall) "by the wall clock " else ""}" +
      (if (unchanged) "while open" else "if changed")
}
