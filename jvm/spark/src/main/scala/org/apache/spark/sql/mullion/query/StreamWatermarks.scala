package org.apache.spark.sql.mullion.query

import java.util.UUID

import scala.collection.mutable

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.connector.read.streaming.SparkDataStream
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec
import org.apache.spark.sql.execution.streaming.runtime.{
  MicroBatchExecution,
  MultipleWatermarkPolicy,
  StreamExecution,
  StreamingExecutionRelation,
  WatermarkTracker
}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.query.note.{StreamWatermark, WatermarkLog}
import org.apache.spark.sql.mullion.shim.SparkVersionShim

import dev.mullion.windows.clock.{IdleClock, StreamClock}

/** An operator whose query treats streams without rows as idle. */
private[mullion] trait FollowsWallClock { this: SparkPlan =>

  /** The time without rows after which a stream below this operator is idle; none for never. */
  def idleAfterMs: Option[Long]
}

/** The watermarks of a running query, in place of Spark's tracker.
  *
  * Spark asks the tracker once at the end of each batch, before the commit, and logs its answer as the watermark of the
  * next batch. This one adds two rules: idle streams do not hold the watermark back ([[StreamClock]]), and each
  * stream's watermark survives a restart ([[WatermarkLog]]). With Spark's own, a restarted query waits until one run
  * has had rows of all streams.
  *
  * @param gaveRows
  *   whether a source below a node had rows in a batch
  * @param log
  *   the record in the checkpoint, if the query has several streams
  */
private[mullion] final class StreamWatermarks private (
    query: MicroBatchExecution,
    policy: MultipleWatermarkPolicy,
    keptBatches: Int,
    gaveRows: SparkPlan => Boolean,
    log: Option[WatermarkLog],
    replaced: WatermarkTracker,
    nextBatch: Long
) extends WatermarkTracker(policy, query.logicalPlan) {
  private val streams = StreamWatermarks.streams(query.logicalPlan)
  // Not polled while the query was not running: a repeated batch has an earlier timestamp.
  private val startedMs = query.triggerClock.getTimeMillis()
  private val quiet = mutable.Map.empty[UUID, IdleClock]
  private var idleAfter = Map.empty[UUID, Long]
  private var recorded = log.flatMap(_.before(nextBatch))

  private val earlier: Map[UUID, Long] = {
    val ofStreams = recorded.toSeq.flatten.flatMap(of => of.ms.map(of.stream -> _)).toMap
    val ofNodes = replaced.watermarkMap
    streams.flatMap { case (node, stream) =>
      (ofNodes.get(node).flatten ++ ofStreams.get(stream.stream)).maxOption.map(node -> _)
    }.toMap
  }

  setWatermark(replaced.currentWatermark)

  override def updateWatermark(executed: SparkPlan): Unit = synchronized {
    val context = query.getLatestExecutionContext()
    val now = context.offsetSeqMetadata.batchTimestampMs
    if (RunningQuery.waits(query)) observe(executed, Math.max(now, startedMs))
    super.updateWatermark(executed)
    setWatermark(reading(now))
    record(context.batchId)
  }

  /** Includes those of earlier runs. */
  override private[sql] def watermarkMap: Map[UUID, Option[Long]] = synchronized {
    super.watermarkMap.map { case (node, now) => node -> (now ++ earlier.get(node)).maxOption }
  }

  /** The watermark that a batch without rows would leave. Called when the sources have been polled: for streams that
    * had rows, their time without rows may begin here.
    */
  def withoutRows(nowMs: Long): Long = synchronized {
    streams.foreach { case (node, _) => beginQuiet(node, nowMs) }
    reading(nowMs)
  }

  /** The nodes of streams that do not hold the watermark back. */
  def idleStreams(nowMs: Long): Set[UUID] = synchronized {
    streams.map(_._1).filter(clockOf(_, watermarkMap).isIdle(nowMs)).toSet
  }

  private def observe(executed: SparkPlan, polledMs: Long): Unit = {
    idleAfter = executed
      .collect { case operator: FollowsWallClock => operator }
      .flatMap(operator =>
        operator.idleAfterMs.toSeq.flatMap(after => StreamWatermarks.nodes(operator).map(_ -> after))
      )
      .groupMapReduce(_._1.nodeId)(_._2)(Math.min(_, _))
    StreamWatermarks.nodes(executed).groupBy(_.nodeId).foreach { case (id, nodes) =>
      if (nodes.exists(gaveRows)) quiet -= id else beginQuiet(id, polledMs)
    }
  }

  private def beginQuiet(node: UUID, nowMs: Long): Unit = {
    quiet.getOrElseUpdate(
      node,
      IdleClock(nowMs, Math.max(currentWatermark, watermarkMap.get(node).flatten.getOrElse(0L)))
    )
    ()
  }

  private def reading(nowMs: Long): Long = {
    val watermarks = watermarkMap
    val clocks = streams.map { case (node, _) => clockOf(node, watermarks) }
    StreamClock.reading(clocks, policy.chooseGlobalWatermark, nowMs, currentWatermark)
  }

  private def clockOf(node: UUID, watermarks: Map[UUID, Option[Long]]): StreamClock =
    StreamClock(watermarks.get(node).flatten, idleAfter.get(node), quiet.get(node))

  private def record(batch: Long): Unit = log.foreach { to =>
    val watermarks = watermarkMap
    val now = streams.map { case (node, stream) => stream.copy(ms = watermarks.get(node).flatten) }
    if (!recorded.contains(now)) {
      to.write(batch, now, oldest = batch - keptBatches)
      recorded = Some(now)
    }
  }
}

private[mullion] object StreamWatermarks {

  /** Replaces the tracker of a running query, if that is needed: for several streams, or streams that may be idle.
    *
    * @param batch
    *   the current one
    */
  def install(
      session: SparkSession,
      runId: UUID,
      batch: Long,
      isIdling: Boolean,
      gaveRows: SparkPlan => Boolean
  ): Unit =
    RunningQuery.find(session, runId).foreach {
      case query: MicroBatchExecution =>
        SparkVersionShim.watermarkTracker(query) match {
          case _: StreamWatermarks => // installed by another operator, or in an earlier batch
          case tracker             =>
            val hasSeveral = streams(query.logicalPlan).length > 1
            if (hasSeveral || isIdling) {
              val conf = session.sessionState.conf
              val policy = MultipleWatermarkPolicy(conf.getConf(SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY))
              val log = Option.when(hasSeveral)(logOf(session, new Path(query.resolvedCheckpointRoot)))
              SparkVersionShim.setWatermarkTracker(
                query,
                new StreamWatermarks(query, policy, conf.minBatchesToRetain, gaveRows, log, tracker, batch)
              )
            }
        }
      case _ =>
    }

  /** The one of a running query, if it is installed. */
  def of(session: SparkSession, runId: UUID): Option[StreamWatermarks] =
    RunningQuery.find(session, runId).flatMap(of)

  def of(query: StreamExecution): Option[StreamWatermarks] = query match {
    case running: MicroBatchExecution =>
      SparkVersionShim.watermarkTracker(running) match {
        case own: StreamWatermarks => Some(own)
        case _                     => None
      }
    case _ => None
  }

  /** The record in a checkpoint. */
  def logOf(session: SparkSession, home: Path): WatermarkLog =
    new WatermarkLog(CheckpointFileManager.create(home, session.sessionState.newHadoopConf()), home)

  /** The streams with a watermark in the plan of a query, without their readings, by the ids of their nodes. The plan
    * of one batch would omit the sources without rows.
    */
  def streams(plan: LogicalPlan): Seq[(UUID, StreamWatermark)] = plan
    .collect { case watermark: EventTimeWatermark => watermark }
    .distinctBy(_.nodeId)
    .zipWithIndex
    .map { case (of, i) =>
      // A query keeps the order of its streams over restarts, as that of its sources.
      val name = s"$i:${of.eventTime.name}".replaceAll("\\s", "_")
      of.nodeId -> StreamWatermark(name, sources(of), EventTimeWatermark.getDelayMs(of.delay), None)
    }

  private def sources(plan: LogicalPlan): String = {
    val names = plan
      .collectLeaves()
      .collect {
        case one: StreamingExecutionRelation        => one.source
        case one: StreamingDataSourceV2ScanRelation => one.stream
      }
      .filterNot((stream: SparkDataStream) => stream.isInstanceOf[TickStream])
      .map(_.toString.linesIterator.mkString(" "))
      .distinct
    if (names.isEmpty) "its source" else names.mkString(" and ")
  }

  private def nodes(plan: SparkPlan): Seq[EventTimeWatermarkExec] =
    plan.collect { case node: EventTimeWatermarkExec => node }
}
