package org.apache.spark.sql.mullion.checkpoint.inspect

import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.connector.read.streaming.SparkDataStream
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamingExecutionRelation}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.query.TickStream
import org.apache.spark.sql.mullion.shim.SparkVersionShim

import dev.mullion.windows.spec.{Duration, TimeMath}

/** The stream that holds back the watermark of a running query. The watermark is the minimum of its streams' watermarks
  * (or the maximum, by a setting), and each of these is the largest time of the stream's rows so far, less a delay.
  */
private object WatermarkHolder {

  def of(query: MicroBatchExecution): Option[String] = {
    val watermarks = SparkVersionShim.watermarks(query)
    // The plan of all batches: the plan of one batch omits sources without rows.
    val streams = query.logicalPlan
      .collect { case node: EventTimeWatermark => node }
      .distinctBy(_.nodeId)
      .map(node =>
        Stream(sources(node), EventTimeWatermark.getDelayMs(node.delay), watermarks.get(node.nodeId).flatten)
      )
    if (streams.isEmpty) None
    else {
      val policy =
        query.lastExecution.sparkSession.sessionState.conf.getConf(SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY)
      // A stream without rows holds back all others, or none.
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
