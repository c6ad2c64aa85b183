package org.apache.spark.sql.mullion.monitor

/** Detects that a clock has not moved while panes wait for it.
  *
  * {{{
  *   clock    10:00 10:00 10:00 10:05 10:05 10:05
  *   wall     0     6     12    13    20    24      minutes
  *                        |                 |       reported once for each reading, after ten minutes
  * }}}
  */
final class ClockWatch(afterMs: Long) {
  private var reading = Option.empty[Long]
  private var sinceMs = Option.empty[Long]
  private var isReported = false

  /** The time for which the clock has not moved, in milliseconds, if it is to be reported now.
    *
    * @param clockMs
    *   its reading, none before it starts
    * @param isAwaited
    *   whether panes wait for it
    */
  def check(clockMs: Option[Long], nowMs: Long, isAwaited: Boolean): Option[Long] = synchronized {
    if (sinceMs.isEmpty || clockMs != reading) {
      reading = clockMs
      sinceMs = Some(nowMs)
      isReported = false
    }
    val standsMs = nowMs - sinceMs.get
    val isDue = isAwaited && !isReported && standsMs >= afterMs
    if (isDue) isReported = true
    Option.when(isDue)(standsMs)
  }
}

/** Limits messages about dropped rows of one cause: one at once, then at most one in an interval, with the rows since.
  */
final class RowsWatch(everyMs: Long) {
  private var lastMs = Option.empty[Long]
  private var unreported = 0L

  /** Counts rows. Returns the number to report now, if any. */
  def add(rows: Long, nowMs: Long): Option[Long] = synchronized {
    unreported += rows
    val isDue = unreported > 0 && lastMs.forall(nowMs - _ >= everyMs)
    Option.when(isDue) {
      val number = unreported
      lastMs = Some(nowMs)
      unreported = 0
      number
    }
  }
}
