package org.apache.spark.sql.mullion.checkpoint.layout

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, CommitLog}
import org.apache.spark.sql.mullion.shim.SparkVersionShim

/** The committed batches of a checkpoint. */
private[checkpoint] object Commits {

  /** The commit log, if it exists: for a missing one Spark would create a folder in a checkpoint that is only read. */
  def of(spark: SparkSession, home: Path): Option[CommitLog] = {
    val folder = new Path(home, "commits")
    val files = CheckpointFileManager.create(home, spark.sessionState.newHadoopConf())
    Option.when(files.exists(folder))(SparkVersionShim.commits(spark, folder))
  }
}
