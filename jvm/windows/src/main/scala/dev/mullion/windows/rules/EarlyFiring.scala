package dev.mullion.windows.rules

import dev.mullion.windows.WindowException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.spec.{Duration, Setting, TimeMath}

/** The interval at which open panes fire: when the pane's clock has moved by `every` (microseconds) since it opened or
  * last fired. The clock is event time while there are rows. In a batch without rows wall time counts too, so that a
  * quiet stream still emits its results.
  *
  * Both clocks are read in the batch in which a pane opens and in each in which it fires. Both only move forward, so
  * panes fall due in the order of their readings, by either clock. The first reading of the event clock starts the
  * intervals: a pane that opened before it counts from it, because the clock steps from 1970 to the first rows.
  *
  * @param every
  *   the interval in microseconds, > 0
  * @param unchanged
  *   whether panes without new rows since their last firing fire too
  * @param byWall
  *   whether wall time alone counts, with or without rows
  */
final case class EarlyFiring(every: Long, unchanged: Boolean, byWall: Boolean = false) {
  if (every <= 0)
    throw WindowException.invalid(
      s"The early firing interval is ${Duration.describe(every)}: it must be at least 1 microsecond. " +
        s"Give a positive duration, such as ${Setting.EarlyEachMinute}, or leave it out."
    )

  /** True if a pane with these readings fires in the batch of `clock`. */
  def isDue(eventReading: Long, wallReading: Long, clock: BatchClock): Boolean = !clock.inputEnds &&
    ((!byWall && clock.now >= eventDue(eventReading, clock)) ||
      ((byWall || !clock.rowsCame) && clock.wall >= wallDue(wallReading)))

  /** The event time at which a pane falls due; the end of time where event time does not count. */
  def eventDue(eventReading: Long, clock: BatchClock): Long =
    if (byWall) Long.MaxValue else TimeMath.plus(Math.max(eventReading, clock.firstReading), every)

  def wallDue(wallReading: Long): Long = TimeMath.plus(wallReading, every)

  def describe: String =
    s"fires early every ${Duration.describe(every)} ${if (byWall) "by the wall clock " else ""}" +
      (if (unchanged) "while open" else "if changed")
}
