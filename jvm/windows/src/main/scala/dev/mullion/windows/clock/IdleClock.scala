package dev.mullion.windows.clock

import dev.mullion.windows.spec.TimeMath

/** The event clock of a stream without rows: it advances with the wall clock from its last reading, never past the wall
  * clock, and never back.
  *
  * {{{
  *   rows      x x x
  *   watermark ------|            |~~~~~~~~~~~~
  *                   | idleAfter  | as much as the wall clock has moved since the source was first seen empty
  * }}}
  *
  * Counting begins when a source that had rows has none. A stream that is slow to start is therefore not idle, nor one
  * that works off a backlog, where each batch has rows.
  *
  * All in milliseconds, the unit of Spark's watermarks and batch timestamps.
  *
  * @param sinceMs
  *   the wall clock when the source was first seen empty
  * @param watermarkMs
  *   the watermark then
  */
final case class IdleClock(sinceMs: Long, watermarkMs: Long) {

  /** The event clock at `nowMs`, once the stream counts as idle. */
  def at(nowMs: Long): Long =
    Math.max(watermarkMs, Math.min(nowMs, TimeMath.plus(watermarkMs, nowMs - sinceMs)))
}
