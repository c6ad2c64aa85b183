package org.apache.spark.sql.mullion.monitor

import dev.mullion.windows.clock.Lateness
import dev.mullion.windows.spec.{Duration, TimeMath}

/** The watermark delay that late rows suggest, as text. */
object LatenessAdvice {

  /** @param late
    *   the late rows of each bucket of `Lateness`
    * @param rows
    *   the number of all rows
    * @param streams
    *   the streams with a watermark
    */
  def apply(late: Seq[Long], rows: Long, streams: Seq[StreamReading]): String =
    if (late.sum == 0) "No row was late."
    else
      Lateness.delayToKeep(late, rows) match {
        case Some(0L)   => "The present delay keeps at least 99.9 % of the rows."
        case Some(more) => s"${delay(more, streams)} would have kept 99.9 % of the rows."
        case None       =>
          s"No delay that is up to ${Duration.describe(Lateness.Bounds.last)} longer would have kept 99.9 % of the rows."
      }

  private def delay(more: Long, streams: Seq[StreamReading]): String = streams match {
    case Seq(one) =>
      val present = TimeMath.fromMillis(one.delayMs)
      s"A watermark delay of ${Duration.describe(present + more)} instead of ${Duration.describe(present)}"
    case _ => s"A watermark delay that is ${Duration.describe(more)} longer"
  }
}
