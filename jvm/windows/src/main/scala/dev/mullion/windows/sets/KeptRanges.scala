package dev.mullion.windows.sets

/** The ranges of time of a table that expire: of one size, ending at multiples of a step. Times are microseconds, of
  * magnitude less than 2^52.
  *
  * {{{
  *   size 10, step 4     |---------|          [-6, 4)
  *                           |---------|      [-2, 8)
  *                               |---------|  [2, 12)
  *                           0   4   8   12
  * }}}
  *
  * A range is stale when it ends no later than the start of the last range that had started `expires` before the clock.
  *
  * @param expires
  *   the time after which a range expires; none if it never does
  */
final class KeptRanges(val size: Long, val step: Long, expires: Option[Long]) extends Serializable {
  private val forEver = expires.isEmpty
  private val retention = expires.getOrElse(0L)

  /** The start of the last range that has started by a time. */
  def lastStart(us: Long): Long = us - Math.floorMod(us + size, step)

  /** The start of the first range that holds a time; in a gap between ranges, after `lastStart`. */
  def firstStart(us: Long): Long = {
    val last = lastStart(us)
    last - Math.floorDiv(size - 1 - (us - last), step) * step
  }

  /** True if a time is in a range. */
  def holds(us: Long): Boolean = us < lastStart(us) + size

  def isStale(start: Long, clock: Long): Boolean = !forEver && start + size <= lastStart(clock - retention)

  /** The first clock reading at which a range is stale, if any. */
  def due(start: Long): Option[Long] = Option.unless(forEver) {
    val end = start + size
    end + Math.floorMod(-(end + size), step) + retention
  }
}
