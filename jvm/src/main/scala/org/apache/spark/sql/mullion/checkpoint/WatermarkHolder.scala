package org.apache.spark.sql.mullion.checkpoint

import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.connector.read.streaming.SparkDataStream
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamingExecutionRelation}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.query.TickStream
import org.apache.spark.sql.mullion.shim.SparkLineShim

import dev.mullion.windows.spec.{Duration, TimeMath}

/** What the watermark of a running query waits for. It is the least of its streams' watermarks (or the greatest, where
  * the session says so), and each of these is the largest time of the stream's rows so far, less a delay.
  */
private object WatermarkHolder {

  def of(query: MicroBatchExecution): Option[String] = {
    val known = SparkLineShim.watermarks(query)
    // The plan that all batches are made from: in a batch's own, a source that had no row is not to be seen.
    val streams = query.logicalPlan
      .collect { case node: EventTimeWatermark => node }
      .distinctBy(_.nodeId)
      .map(node => Stream(sources(node), EventTimeWatermark.getDelayMs(node.delay), known.get(node.nodeId).flatten))
    if (streams.isEmpty) None
    else {
      val policy =
        query.lastExecution.sparkSession.sessionState.conf.getConf(SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY)
      // One that has had no row holds all others, or none.
      def at(stream: Stream): Long = stream.watermarkMs.getOrElse(Long.MinValue)
      if (policy == "max") Some(streams.maxBy(at).inWords)
      else {
        val least = streams.minBy(at)
        val ahead =
          for (most <- streams.flatMap(_.watermarkMs).maxOption; at <- least.watermarkMs if most > at)
            yield s"; another stream is ${Duration.describe(TimeMath.fromMillis(most - at))} ahead"
        Some(least.inWords + ahead.getOrElse(""))
      }
    }
  }

  private final case class Stream(sources: Seq[String], delayMs: Long, watermarkMs: Option[Long]) {
    def inWords: String = {
      val name = if (sources.isEmpty) "its source" else sources.mkString(" and ")
      watermarkMs.fold(s"$name: no row yet") { at =>
        val behind =
          if (delayMs == 0) "" else s", and the watermark is ${Duration.describe(TimeMath.fromMillis(delayMs))} behind"
        s"$name: no row after ${instant(at + delayMs)}$behind"
      }
    }
  }

  private def instant(ms: Long): String = java.time.Instant.ofEpochMilli(ms).toString

  private def sources(plan: LogicalPlan): Seq[String] = plan
    .collectLeaves()
    .collect {
      case one: StreamingExecutionRelation        => one.source
      case one: StreamingDataSourceV2ScanRelation => one.stream
    }
    .filterNot((stream: SparkDataStream) => stream.isInstanceOf[TickStream])
    .map(_.toString)
    .distinct
}
