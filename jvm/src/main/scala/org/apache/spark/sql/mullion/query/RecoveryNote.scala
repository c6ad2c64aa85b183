package org.apache.spark.sql.mullion.query

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import dev.mullion.MullionException

/** The file in a checkpoint that says what a recovery is about to do. While it is there, the logs and the state of the
  * checkpoint may be of different batches.
  */
private[mullion] object RecoveryNote {
  def path(home: Path): Path = new Path(home, "mullion-recovery")

  /** True if a recovery was interrupted. */
  def isThere(files: CheckpointFileManager, home: Path): Boolean = files.exists(path(home))

  /** Fails after an interrupted recovery. */
  def requireNone(files: CheckpointFileManager, home: Path): Unit =
    if (isThere(files, home))
      throw MullionException.stateLost(
        s"A recovery of the checkpoint $home was interrupted. Call mullion.recover(\"$home\") again, and start the query then."
      )
}
