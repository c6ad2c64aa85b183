package org.apache.spark.sql.mullion.query

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.query.note.StreamWatermark
import org.apache.spark.sql.mullion.shim.SparkVersionShim

import dev.mullion.windows.spec.{Duration, TimeMath}

/** The stream that holds back the watermark of a query. The watermark is the minimum of its streams' watermarks (or the
  * maximum, by a setting), without those of idle streams, and each of these is the largest time of the stream's rows so
  * far, less a delay.
  */
private[mullion] object WatermarkHolder {

  /** For a running query. */
  def of(query: MicroBatchExecution): Option[String] = of(query, streams(query))

  /** @param streams
    *   those of the query
    */
  def of(query: MicroBatchExecution, streams: Seq[(StreamWatermark, Boolean)]): Option[String] = {
    val (idle, awake) = streams.partition(_._2)
    of(query.lastExecution.sparkSession, awake.map(_._1), idle.map(_._1))
  }

  /** The streams of a running query with their watermarks, and whether each is idle. */
  def streams(query: MicroBatchExecution): Seq[(StreamWatermark, Boolean)] = {
    val watermarks = SparkVersionShim.watermarks(query)
    val idle =
      StreamWatermarks.of(query).fold(Set.empty[java.util.UUID])(_.idleStreams(query.triggerClock.getTimeMillis()))
    StreamWatermarks.streams(query.logicalPlan).map { case (node, stream) =>
      (stream.copy(ms = watermarks.get(node).flatten), idle.contains(node))
    }
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
