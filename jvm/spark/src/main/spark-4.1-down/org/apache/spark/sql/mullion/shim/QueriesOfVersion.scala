package org.apache.spark.sql.mullion.shim

import java.io.{ByteArrayInputStream, InputStream}
import java.nio.charset.StandardCharsets.UTF_8

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CommitLog, CommitMetadata, OffsetSeq}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StateOperatorProgress

/** Access to a query and its session, up to 4.1. */
private[shim] trait QueriesOfVersion {

  /** The identifier of a SQL function without a schema. */
  def builtinFunction(name: String): FunctionIdentifier = FunctionIdentifier(name)

  /** An operator's progress with another count of rows that the watermark dropped. */
  def withDropped(progress: StateOperatorProgress, rows: Long): StateOperatorProgress =
    progress.copy(progress.numRowsUpdated, newNumRowsDroppedByWatermark = rows)

  /** The timestamp of a batch, from its log entry. */
  def batchTimestampMs(note: OffsetSeq): Option[Long] = note.metadata.map(_.batchTimestampMs)

  /** The event clock of a batch, from its log entry. */
  def batchWatermarkMs(note: OffsetSeq): Option[Long] = note.metadata.map(_.batchWatermarkMs)

  /** The commits of a checkpoint in either format. Spark's own log only reads the session's; the formats differ in
    * their first line alone.
    */
  def commits(spark: SparkSession, folder: Path): CommitLog = new CommitLog(spark, folder.toString) {
    private val own = spark.sessionState.conf.getConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION)

    override def deserialize(in: InputStream): CommitMetadata = {
      val text = new String(in.readAllBytes(), UTF_8)
      super.deserialize(new ByteArrayInputStream(text.replaceFirst("\\Av[12]\\b", s"v$own").getBytes(UTF_8)))
    }
  }
}
