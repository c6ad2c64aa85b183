package org.apache.spark.sql.mullion.shim

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CommitLog, OffsetSeqBase}
import org.apache.spark.sql.streaming.StateOperatorProgress

/** What is known of a query and its session: 4.2 and later. */
private[shim] trait QueriesOfLine {

  /** What a function of SQL is found by that is named without a schema. */
  def builtinFunction(name: String): FunctionIdentifier = FunctionRegistry.builtinFunctionIdentifier(name)

  /** What an operator reports, with another count of rows that the watermark dropped. */
  def withDropped(progress: StateOperatorProgress, rows: Long): StateOperatorProgress =
    progress.copy(progress.numRowsUpdated, newNumRowsDroppedByWatermark = rows, progress.numRowsRemoved)

  /** The timestamp of the batch whose note this is. */
  def batchTimestampMs(note: OffsetSeqBase): Option[Long] = note.metadataOpt.map(_.batchTimestampMs)

  /** The event clock of a batch. */
  def batchWatermarkMs(note: OffsetSeqBase): Option[Long] = note.metadataOpt.map(_.batchWatermarkMs)

  /** The commits of a checkpoint, in whichever format it is. */
  def commits(spark: SparkSession, folder: Path): CommitLog = new CommitLog(spark, folder.toString)
}
