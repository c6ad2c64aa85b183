package org.apache.spark.sql.mullion.shim

import java.io.{ByteArrayInputStream, InputStream}
import java.nio.charset.StandardCharsets.UTF_8

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CommitLog, CommitMetadata, OffsetSeq}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StateOperatorProgress

/** What is known of a query and its session: up to 4.1. */
private[shim] trait QueriesOfLine {

  /** What a function of SQL is found by that is named without a schema. */
  def builtinFunction(name: String): FunctionIdentifier = FunctionIdentifier(name)

  /** What an operator reports, with another count of rows that the watermark dropped. */
  def withDropped(progress: StateOperatorProgress, rows: Long): StateOperatorProgress =
    progress.copy(progress.numRowsUpdated, newNumRowsDroppedByWatermark = rows)

  /** The timestamp of the batch whose note this is. */
  def batchTimestampMs(note: OffsetSeq): Option[Long] = note.metadata.map(_.batchTimestampMs)

  /** The event clock of a batch. */
  def batchWatermarkMs(note: OffsetSeq): Option[Long] = note.metadata.map(_.batchWatermarkMs)

  /** The commits of a checkpoint, in whichever format it is. Spark's own log reads that of the session alone; the two
    * formats differ in their first line alone.
    */
  def commits(spark: SparkSession, folder: Path): CommitLog = new CommitLog(spark, folder.toString) {
    private val own = spark.sessionState.conf.getConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION)

    override def deserialize(in: InputStream): CommitMetadata = {
      val text = new String(in.readAllBytes(), UTF_8)
      super.deserialize(new ByteArrayInputStream(text.replaceFirst("\\Av[12]\\b", s"v$own").getBytes(UTF_8)))
    }
  }
}
