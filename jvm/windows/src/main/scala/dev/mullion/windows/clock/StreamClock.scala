package dev.mullion.windows.clock

/** The watermark of one stream of a query: the largest event time of its rows so far, minus the delay.
  *
  * {{{
  *   stream a      x x x x x x x x     its watermark counts
  *   stream b      x |             |   idle: it no longer holds the event clock back
  *                   | idleAfter   |
  *   event clock   ------ b's      |-- a's
  * }}}
  *
  * All times are milliseconds.
  *
  * @param watermark
  *   none before its first row
  * @param idleAfter
  *   the time without rows after which the stream is idle; none for never
  * @param quiet
  *   the wall clock when the stream was first seen without rows, and the event clock that it continues from; none while
  *   it has rows
  */
final case class StreamClock(watermark: Option[Long], idleAfter: Option[Long], quiet: Option[IdleClock]) {

  def isIdle(nowMs: Long): Boolean =
    idleAfter.exists(after => quiet.exists(since => nowMs - since.sinceMs >= after))
}

object StreamClock {

  /** The event clock of a query.
    *
    * Idle streams do not count. If all streams are idle, the clock continues from the one that had rows last, and
    * advances with the wall clock. Of several that had rows last at the same time it is the furthest, as in Flink,
    * where inputs that are all idle leave the maximum of their watermarks (`StatusWatermarkValve`).
    *
    * @param choose
    *   the choice between several watermarks: Spark's policy, their minimum or their maximum
    * @param current
    *   its reading so far; it never moves back
    */
  def reading(streams: Seq[StreamClock], choose: Seq[Long] => Long, nowMs: Long, current: Long): Long = {
    val awake = streams.filterNot(_.isIdle(nowMs))
    val target = if (awake.nonEmpty) choose(awake.map(_.watermark.getOrElse(0L))) else followed(streams, nowMs)
    Math.max(current, target)
  }

  private def followed(streams: Seq[StreamClock], nowMs: Long): Long = {
    val withRows = streams.filter(_.watermark.isDefined)
    // After a restart, the watermark of a single stream is known only as the event clock.
    val quiet = (if (withRows.isEmpty) streams else withRows).flatMap(_.quiet)
    val last = quiet.map(_.sinceMs).max
    quiet.filter(_.sinceMs == last).map(_.at(nowMs)).max
  }
}
