package org.apache.spark.sql.mullion.query

import org.apache.spark.sql.catalyst.streaming.InternalOutputModes
import org.apache.spark.sql.classic.{DataFrame, Dataset}
import org.apache.spark.sql.execution.streaming.sources.MemorySink
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.util.ManualClock

/** A streaming query whose clock a test moves, with its output in memory: for tests of ours and of our users'. The
  * clock is Spark's own trigger clock, so batch timestamps and all that is read from them follow it.
  */
final class ClockedQuery private (val query: StreamingQuery, sink: MemorySink, clock: ManualClock, panes: DataFrame) {

  /** The query's clock, in milliseconds since the epoch. */
  def timeMs: Long = clock.getTimeMillis()

  /** Moves the clock forward. */
  def advanceMs(ms: Long): Unit = {
    require(ms >= 0, s"the clock goes only forward, not by $ms ms")
    clock.advance(ms)
  }

  /** Runs all batches that the sources, the watermark and the clock ask for. */
  def settle(): Unit = query.processAllAvailable()

  /** The last batch that wrote output, or -1. */
  def lastBatch: Long = sink.latestBatchId.getOrElse(-1L)

  /** What batches after `batch` wrote. */
  def since(batch: Long): DataFrame = {
    val rows = new java.util.ArrayList[org.apache.spark.sql.Row]()
    sink.dataSinceBatch(batch).foreach(rows.add)
    panes.sparkSession.createDataFrame(rows, panes.schema)
  }

  def stop(): Unit = query.stop()
}

object ClockedQuery {

  /** Starts a query over `panes` with its clock at `startMs` (milliseconds since the epoch). */
  def start(panes: Dataset[_], checkpoint: String, outputMode: String, startMs: Long): ClockedQuery = {
    val sink = new MemorySink
    val clock = new ManualClock(startMs)
    val query = panes.sparkSession.streams.startQuery(
      userSpecifiedName = None,
      userSpecifiedCheckpointLocation = Some(checkpoint),
      df = panes,
      extraOptions = Map.empty,
      sink = sink,
      outputMode = InternalOutputModes(outputMode),
      trigger = Trigger.ProcessingTime(0),
      triggerClock = clock
    )
    new ClockedQuery(query, sink, clock, panes.toDF())
  }
}
