package org.apache.spark.sql.mullion.checkpoint.inspect

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.query.{StreamWatermark, StreamWatermarks}
import org.apache.spark.sql.mullion.shim.SparkVersionShim

import dev.mullion.windows.spec.{Duration, TimeMath}

/** The stream that holds back the watermark of a query. The watermark is the minimum of its streams' watermarks (or the
  * maximum, by a setting), without those of idle streams, and each of these is the largest time of the stream's rows so
  * far, less a delay.
  */
private object WatermarkHolder {

  /** For a running query. */
  def of(query: MicroBatchExecution): Option[String] = {
    val watermarks = SparkVersionShim.watermarks(query)
    val streams = StreamWatermarks.streams(query.logicalPlan)
    val idle =
      StreamWatermarks.of(query).fold(Set.empty[java.util.UUID])(_.idleStreams(query.triggerClock.getTimeMillis()))
    val (without, awake) = streams
      .map { case (node, stream) => node -> stream.copy(ms = watermarks.get(node).flatten) }
      .partition(of => idle.contains(of._1))
    of(query.lastExecution.sparkSession, awake.map(_._2), without.map(_._2))
  }

  /** @param idle
    *   the streams that do not count
    */
  def of(session: SparkSession, awake: Seq[StreamWatermark], idle: Seq[StreamWatermark]): Option[String] =
    if (awake.isEmpty)
      Option.when(idle.nonEmpty)(s"no stream: ${listed(idle)}, and the clock advances with the wall clock")
    else {
      val policy = session.sessionState.conf.getConf(SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY)
      // A stream without rows holds back all others, or none.
      def at(stream: StreamWatermark): Long = stream.ms.getOrElse(Long.MinValue)
      val without = if (idle.isEmpty) "" else s"; ${listed(idle)}"
      if (policy == "max") Some(inWords(awake.maxBy(at)) + without)
      else {
        val least = awake.minBy(at)
        val ahead =
          for (most <- awake.flatMap(_.ms).maxOption; at <- least.ms if most > at)
            yield s"; another stream is ${Duration.describe(TimeMath.fromMillis(most - at))} ahead"
        Some(inWords(least) + ahead.getOrElse("") + without)
      }
    }

  private def listed(idle: Seq[StreamWatermark]): String =
    s"${idle.map(_.sources).mkString(", ")} ${if (idle.length == 1) "is" else "are"} idle"

  private def inWords(stream: StreamWatermark): String =
    stream.ms.fold(s"${stream.sources}: no row yet") { at =>
      val delay = TimeMath.fromMillis(stream.delayMs)
      val behind = if (delay == 0) "" else s", and the watermark is ${Duration.describe(delay)} behind"
      s"${stream.sources}: no row after ${instant(at + stream.delayMs)}$behind"
    }

  private def instant(ms: Long): String = java.time.Instant.ofEpochMilli(ms).toString
}
