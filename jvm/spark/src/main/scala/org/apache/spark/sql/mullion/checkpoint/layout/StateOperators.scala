package org.apache.spark.sql.mullion.checkpoint.layout

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import dev.mullion.MullionException

/** The operators with state in a checkpoint: each has a folder there, named by its number. */
private[checkpoint] object StateOperators {

  /** Their numbers, in order; none if the checkpoint has no state. */
  def find(checkpoint: Path, hadoopConf: Configuration): Option[Seq[Long]] = {
    val root = new Path(checkpoint, "state")
    val files = CheckpointFileManager.create(checkpoint, hadoopConf)
    Option.when(files.exists(root)) {
      files.list(root).toSeq.map(_.getPath.getName).filter(_.forall(_.isDigit)).map(_.toLong).sorted
    }
  }

  /** The same for a checkpoint that must have state.
    *
    * @param one
    *   the name of the operator in messages
    */
  def in(checkpoint: String, hadoopConf: Configuration, one: String = "window"): Seq[Long] =
    find(new Path(checkpoint), hadoopConf).getOrElse(throw none(checkpoint, one))

  /** The error for a checkpoint without state. */
  def none(checkpoint: String, one: String = "window"): MullionException = MullionException.invalid(
    s"There is no state in $checkpoint: it has no folder 'state'. Give the checkpointLocation of a query with a $one."
  )
}
