package org.apache.spark.sql.mullion.checkpoint

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, CommitLog}
import org.apache.spark.sql.mullion.shim.SparkLineShim

/** The batches that a checkpoint notes as done. */
private[checkpoint] object Commits {

  /** The log of them, if there is one: Spark would make a folder for it in a checkpoint that is only looked at. */
  def of(spark: SparkSession, home: Path): Option[CommitLog] = {
    val folder = new Path(home, "commits")
    val files = CheckpointFileManager.create(home, spark.sessionState.newHadoopConf())
    Option.when(files.exists(folder))(SparkLineShim.commits(spark, folder))
  }
}
