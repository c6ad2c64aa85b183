package dev.mullion.windows.rules

import dev.mullion.windows.WindowException
import dev.mullion.windows.spec.{Duration, TimeMath}

/** The windows that close even without rows, within a bounded range. */
object EmptyWindows {

  /** The limit of windows without rows of a key that close in one batch, or between two rows of a batch DataFrame. More
    * indicate a row with a wrong time.
    */
  val mostAtOnce: Long = 1000000L

  /** The windows from `from` on and before `until`, the clock's reading. */
  def between(from: Long, until: Long, clock: Long, rules: PaneRules): Iterator[Long] = {
    if (TimeMath.minus(until, from) > mostAtOnce)
      throw WindowException.invalid(
        s"The clock's way to ${Duration.describe(clock)} after 1970 closes ${until - from} windows of one " +
          s"key at once (${rules.window.describe}), and the limit is $mostAtOnce. Is a row's time wrong? Keep such rows out " +
          "before the watermark, or use longer windows, or emit no windows without rows."
      )
    Iterator.iterate(from)(_ + 1).takeWhile(_ < until)
  }
}
