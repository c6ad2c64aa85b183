package org.apache.spark.sql.mullion.checkpoint.layout

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog
import org.apache.spark.sql.mullion.shim.SparkVersionShim

import dev.mullion.windows.spec.TimeMath

/** The clocks of a query that continues from a checkpoint, in microseconds.
  *
  * @param committed
  *   the event clock of its last committed batch: panes due by it have closed
  * @param next
  *   the event clock of its next batch
  * @param committedWall
  *   the processing time of its last committed batch
  * @param wall
  *   the newest recorded processing time
  * @param nextBatch
  *   the number of the first uncommitted batch
  */
private[checkpoint] final case class CheckpointClock(
    committed: Long,
    next: Long,
    committedWall: Long,
    wall: Long,
    nextBatch: Long
) {
  def committed(onProcessingTime: Boolean): Long = if (onProcessingTime) committedWall else committed

  def next(onProcessingTime: Boolean): Long = if (onProcessingTime) wall else next
}

private[checkpoint] object CheckpointClock {

  /** None if no batch has been committed. */
  def of(spark: SparkSession, checkpoint: String): Option[CheckpointClock] = {
    val home = new Path(checkpoint)
    SparkVersionShim.commits(spark, new Path(home, "commits")).getLatest().map { case (batch, commit) =>
      val log = new OffsetSeqLog(spark, new Path(home, "offsets").toString)
      val (own, newest) = (log.get(batch), log.getLatest().map(_._2))
      def micros(ms: Option[Long]) = TimeMath.fromMillis(ms.getOrElse(0L))
      CheckpointClock(
        micros(own.flatMap(SparkVersionShim.batchWatermarkMs(_))),
        TimeMath.fromMillis(commit.nextBatchWatermarkMs),
        micros(own.flatMap(SparkVersionShim.batchTimestampMs(_))),
        micros(newest.flatMap(SparkVersionShim.batchTimestampMs(_))),
        batch + 1
      )
    }
  }
}
