package org.apache.spark.sql.mullion.operator

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamExecution}
import org.apache.spark.sql.mullion.monitor._
import org.apache.spark.sql.mullion.monitor.ui.WindowsTab
import org.apache.spark.sql.mullion.operator.engine.PaneCounts
import org.apache.spark.sql.mullion.operator.program.{OperatorProgram, TogetherProgram, WindowProgram}
import org.apache.spark.sql.mullion.query.note.StreamWatermark
import org.apache.spark.sql.mullion.query.{RunningQuery, WatermarkHolder}
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.streaming.StateOperatorProgress

import dev.mullion.windows.rules.{LatePolicy, NumberedRules, PaneRules}
import dev.mullion.windows.spec.TimeMath

/** The reports of a window operator to the query's monitor. A report that fails never fails the query. */
private[operator] object WindowReport extends Logging {

  /** Reports that the operator runs a batch.
    *
    * @param branch
    *   the name of a window between the stages of a function with state
    */
  def begin(exec: WindowExec, branch: Option[String]): Unit = guarded {
    query(exec).foreach { running =>
      monitor(exec).begin(running, exec.getStateInfo.operatorId) {
        val settings = MonitorSettings.of(exec.conf)
        if (settings.showsTab) WindowsTab.attach(exec.session.sparkContext)
        (describe(exec, branch, running), settings)
      }
    }
  }

  /** Reports a batch that has been executed.
    *
    * @param number
    *   of the batch
    * @param nextDue
    *   the earliest due time, in microseconds
    * @param lateness
    *   the late rows in the buckets of `Lateness`
    * @param ends
    *   the open panes of each partition by the end of their windows, as of `EndCounts.toBytes`
    * @param closed
    *   the panes of watched keys that have closed
    * @param partitions
    *   the amounts that each partition has added to a metric
    */
  def report(
      exec: WindowExec,
      number: Long,
      progress: StateOperatorProgress,
      nextDue: Long,
      lateness: Seq[Long],
      ends: Map[Int, Array[Byte]],
      closed: Seq[ClosedPane]
  )(partitions: String => Map[Int, Long]): Unit = guarded {
    for (running <- query(exec); info <- exec.stateInfo)
      monitor(exec).report(
        info.queryRunId,
        info.operatorId,
        batch(exec, number, running, progress, nextDue, lateness, partitions)
          .copy(ends = ends.values.toSeq, closed = closed)
      )
  }

  /** The keys whose closed panes must be reported. */
  def watched(exec: WindowExec): Set[Long] = {
    val history = exec.stateInfo.flatMap { info =>
      monitor(exec).query(info.queryRunId).flatMap(_.operator(info.operatorId))
    }
    history.fold(Set.empty[Long])(_.watched.keys)
  }

  private def monitor(exec: WindowExec): QueryMonitor = QueryMonitor.of(exec.session.sparkContext)

  private def query(exec: WindowExec): Option[StreamExecution] =
    exec.stateInfo.flatMap(info => RunningQuery.find(exec.session, info.queryRunId))

  private def guarded(body: => Unit): Unit =
    try body
    catch {
      case error: LinkageError      => failed(error)
      case error if NonFatal(error) => failed(error)
    }

  private def failed(error: Throwable): Unit =
    logWarning("Mullion cannot report the state of a query to the web UI and the metrics system.", error)

  private def describe(exec: WindowExec, branch: Option[String], running: StreamExecution): OperatorDescription = {
    val (program, info) = (exec.program, exec.getStateInfo)
    OperatorDescription(
      info.operatorId,
      branch,
      program.describe,
      clockOf(program),
      streams(running).length,
      program.idleAfter,
      emitsLate = rulesOf(program).forall(_.late == LatePolicy.Emit),
      info.numPartitions,
      program.language
    )
  }

  private def rulesOf(program: OperatorProgram): Seq[PaneRules] = program match {
    case one: WindowProgram       => Seq(one.rules)
    case several: TogetherProgram => several.windows.map(_.program.rules)
    case _                        => Nil
  }

  private def clockOf(program: OperatorProgram): ClockKind =
    if (program.onProcessingTime) ClockKind.ProcessingTime
    else if (program.rows.exists(_.byRow.delayByKey.isDefined)) ClockKind.EventTimeOfKeys
    else if (rulesOf(program).forall(_.isInstanceOf[NumberedRules])) ClockKind.RowNumbers
    else ClockKind.EventTime

  private def batch(
      exec: WindowExec,
      number: Long,
      running: StreamExecution,
      progress: StateOperatorProgress,
      nextDue: Long,
      lateness: Seq[Long],
      partitions: String => Map[Int, Long]
  ): BatchReport = {
    val custom = progress.customMetrics.asScala
    def metric(name: String): Long = custom.get(name).fold(0L)(_.longValue)
    val counts = Count.all.map(count => count -> metric(count.name)).toMap ++ Map(
      Count.RowsDropped -> progress.numRowsDroppedByWatermark,
      Count.RowsDroppedBefore -> droppedBefore(exec.child),
      Count.OperatorTimeMs -> (progress.allUpdatesTimeMs + progress.allRemovalsTimeMs + progress.commitTimeMs)
    )
    val (cached, disk) = (partitions("hotBytes"), partitions(DiskBytes))
    BatchReport(
      number,
      running.triggerClock.getTimeMillis(),
      reading(exec, running),
      Option.when(nextDue != PaneCounts.Never)(TimeMath.toMillis(nextDue)),
      rowsRead(exec.child).orElse(rowsRead(running.lastExecution.executedPlan)).getOrElse(0L),
      counts,
      metric("panesOpen"),
      lateness,
      StateSize(progress.numRowsTotal, progress.memoryUsedBytes, metric("hotBytes"), disk.values.sum),
      (0 until exec.getStateInfo.numPartitions).map { partition =>
        PartitionSize(partition, cached.getOrElse(partition, 0L), disk.getOrElse(partition, 0L))
      }
    )
  }

  private val DiskBytes = "rocksdbSstFileSize"

  private def reading(exec: WindowExec, running: StreamExecution): ClockReading = clockOf(exec.program) match {
    case ClockKind.ProcessingTime => ClockReading(exec.batchTimestampMs, Nil, None)
    case ClockKind.EventTime      =>
      running match {
        case micro: MicroBatchExecution =>
          val readings = streams(micro)
          // An operator below another of Mullion's has a clock that is behind the stream's, by the other's lateness.
          val behind = exec.eventTimeWatermarkForEviction.fold(0L) { own =>
            Math.max(0L, micro.lastExecution.offsetSeqMetadata.batchWatermarkMs - own)
          }
          val at = Some(SparkVersionShim.watermarkTracker(micro).currentWatermark - behind).filter(_ > 0)
          ClockReading(
            at,
            readings.map { case (of, isIdle) => StreamReading(of.sources, of.delayMs, of.ms, isIdle) },
            WatermarkHolder.of(micro, readings)
          )
        case _ => ClockReading(None, Nil, None)
      }
    case ClockKind.EventTimeOfKeys | ClockKind.RowNumbers => ClockReading(None, Nil, None)
  }

  private def streams(running: StreamExecution): Seq[(StreamWatermark, Boolean)] = running match {
    case micro: MicroBatchExecution => WatermarkHolder.streams(micro)
    case _                          => Nil
  }

  /** The rows of the batch that its sources returned; none if there is no source below, as in a branch. */
  private def rowsRead(plan: SparkPlan): Option[Long] =
    plan.collectLeaves().flatMap(_.metrics.get("numOutputRows")).map(_.value).reduceOption(_ + _)

  /** The rows that operators of Spark below this one dropped by the watermark. */
  private def droppedBefore(plan: SparkPlan): Long = plan
    .collect { case node if !node.isInstanceOf[WindowExec] => node.metrics.get(DroppedRows) }
    .flatten
    .map(_.value)
    .sum

  private val DroppedRows = "numRowsDroppedByWatermark"
}
