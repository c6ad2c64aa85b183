package org.apache.spark.sql.mullion.query

import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.sql.catalyst.streaming.InternalOutputModes
import org.apache.spark.sql.classic.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog
import org.apache.spark.sql.execution.streaming.sources.MemorySink
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.util.{ManualClock, UninterruptibleThread}

/** A streaming query on a clock that a test moves, with its output in memory, for Mullion's tests and users' tests. The
  * clock is Spark's own trigger clock, so batch timestamps follow it.
  *
  * Its first batch waits for the first call, so rows written after the start are always in it. Otherwise a query with a
  * tick source would or would not run a batch without rows, depending on a race.
  */
final class ClockedQuery private (
    started: StreamingQuery,
    drains: Boolean,
    sink: MemorySink,
    clock: HeldClock,
    panes: DataFrame
) {

  /** Spark's own query. */
  def query: StreamingQuery = {
    clock.release()
    started
  }

  /** The query's clock, in milliseconds since the epoch. */
  def timeMs: Long = clock.getTimeMillis()

  /** Moves the clock forward. */
  def advanceMs(ms: Long): Unit = {
    require(ms >= 0, s"the clock goes only forward, not by $ms ms")
    clock.advance(ms)
  }

  /** Sets the clock back, as may happen on a machine. */
  def setBackMs(ms: Long): Unit = {
    require(ms >= 0, s"the clock is set back by $ms ms")
    clock.advance(-ms)
  }

  /** Runs all batches that the sources, the watermark and the clock require; for a draining query, all until its end.
    */
  def settle(): Unit = if (drains) query.awaitTermination() else query.processAllAvailable()

  /** The last batch that wrote output, or -1. */
  def lastBatch: Long = sink.latestBatchId.getOrElse(-1L)

  /** The rows that batches after `batch` wrote. */
  def since(batch: Long): DataFrame = {
    val rows = new java.util.ArrayList[org.apache.spark.sql.Row]()
    sink.dataSinceBatch(batch).foreach(rows.add)
    panes.sparkSession.createDataFrame(rows, panes.schema)
  }

  /** Stops it; a query without any call has run no batch. */
  def stop(): Unit = started.stop()
}

/** A clock that blocks the thread of a query until it is released. Spark reads it once for the start time, which
  * `start` waits for, and from then on for its batches.
  */
final private class HeldClock(startMs: Long) extends ManualClock(startMs) {

  private val saysWhenItStarted = new AtomicBoolean(true)
  private val released = new CountDownLatch(1)

  def release(): Unit = released.countDown()

  override def getTimeMillis(): Long = {
    // A query runs its batches in such a thread.
    val ofQuery = Thread.currentThread().isInstanceOf[UninterruptibleThread]
    if (ofQuery && !saysWhenItStarted.getAndSet(false)) released.await()
    super.getTimeMillis()
  }
}

object ClockedQuery {

  /** Starts a query over `panes`. With `drain` it ends after it has read all existing rows.
    *
    * @param startMs
    *   the start of its clock in milliseconds since the epoch. Without it, the clock starts with the machine's, or at
    *   the last batch of the checkpoint if that is later
    */
  def start(
      panes: Dataset[_],
      checkpoint: String,
      outputMode: String,
      startMs: Option[Long],
      drain: Boolean
  ): ClockedQuery = {
    val sink = new MemorySink
    val clock = new HeldClock(startMs.getOrElse(presentMs(panes.sparkSession, checkpoint)))
    val query = panes.sparkSession.streams.startQuery(
      userSpecifiedName = None,
      userSpecifiedCheckpointLocation = Some(checkpoint),
      df = panes,
      extraOptions = Map.empty,
      sink = sink,
      outputMode = InternalOutputModes(outputMode),
      trigger = if (drain) Trigger.AvailableNow() else Trigger.ProcessingTime(0),
      triggerClock = clock
    )
    new ClockedQuery(query, drain, sink, clock, panes.toDF())
  }

  private def presentMs(session: SparkSession, checkpoint: String): Long = {
    val lastBatch = new OffsetSeqLog(session, s"$checkpoint/offsets").getLatest()
    val lastMs = lastBatch.flatMap { case (_, offsets) => SparkVersionShim.batchTimestampMs(offsets) }
    lastMs.foldLeft(System.currentTimeMillis())(Math.max(_, _))
  }
}
