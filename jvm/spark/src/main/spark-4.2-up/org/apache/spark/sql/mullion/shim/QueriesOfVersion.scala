package org.apache.spark.sql.mullion.shim

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CommitLog, OffsetSeqBase}
import org.apache.spark.sql.streaming.StateOperatorProgress

/** Access to a query and its session, for 4.2 and later. */
private[shim] trait QueriesOfVersion {

  /** The identifier of a SQL function without a schema. */
  def builtinFunction(name: String): FunctionIdentifier = FunctionRegistry.builtinFunctionIdentifier(name)

  /** An operator's progress with another count of rows that the watermark dropped. */
  def withDropped(progress: StateOperatorProgress, rows: Long): StateOperatorProgress =
    progress.copy(progress.numRowsUpdated, newNumRowsDroppedByWatermark = rows, progress.numRowsRemoved)

  /** The timestamp of a batch, from its log entry. */
  def batchTimestampMs(note: OffsetSeqBase): Option[Long] = note.metadataOpt.map(_.batchTimestampMs)

  /** The event clock of a batch, from its log entry. */
  def batchWatermarkMs(note: OffsetSeqBase): Option[Long] = note.metadataOpt.map(_.batchWatermarkMs)

  /** The commits of a checkpoint in either format. */
  def commits(spark: SparkSession, folder: Path): CommitLog = new CommitLog(spark, folder.toString)
}
