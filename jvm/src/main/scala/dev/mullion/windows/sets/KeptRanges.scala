package dev.mullion.windows.sets

/** The ranges of time of a table that keeps each for a while: all of one size, ending at multiples of a step, and gone
  * once they are stale. Times are microseconds, of less than 2^52 either way.
  *
  * {{{
  *   size 10, step 4     |---------|          [-6, 4)
  *                           |---------|      [-2, 8)
  *                               |---------|  [2, 12)
  *                           0   4   8   12
  * }}}
  *
  * A range is stale when it ends no later than the last range starts that had started `expires` before the clock.
  *
  * @param expires
  *   how long a range is kept; none for ever
  */
final class KeptRanges(val size: Long, val step: Long, expires: Option[Long]) extends Serializable {
  private val forEver = expires.isEmpty
  private val kept = expires.getOrElse(0L)

  /** When the last range starts that has started by a time. */
  def lastStart(us: Long): Long = us - Math.floorMod(us + size, step)

  /** When the first range starts that holds a time; in a gap between ranges, after `lastStart`. */
  def firstStart(us: Long): Long = {
    val last = lastStart(us)
    last - Math.floorDiv(size - 1 - (us - last), step) * step
  }

  /** Whether a time is in a range. */
  def holds(us: Long): Boolean = us < lastStart(us) + size

  def isStale(start: Long, clock: Long): Boolean = !forEver && start + size <= lastStart(clock - kept)

  /** The first time of a clock at which a range is stale, if there is one. */
  def due(start: Long): Option[Long] = Option.unless(forEver) {
    val end = start + size
    end + Math.floorMod(-(end + size), step) + kept
  }
}
