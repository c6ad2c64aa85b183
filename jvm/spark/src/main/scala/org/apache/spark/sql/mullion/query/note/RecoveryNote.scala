package org.apache.spark.sql.mullion.query.note

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import dev.mullion.MullionException

/** The plan of a running recovery, in a file of the checkpoint. While it exists, logs and state may belong to different
  * batches.
  */
private[mullion] object RecoveryNote {
  def path(home: Path): Path = new Path(home, "mullion-recovery")

  /** True if a recovery was interrupted. */
  def isThere(files: CheckpointFileManager, home: Path): Boolean = files.exists(path(home))

  /** Fails after an interrupted recovery. */
  def requireNone(files: CheckpointFileManager, home: Path): Unit =
    if (isThere(files, home))
      throw MullionException.stateLost(
        s"A recovery of the checkpoint $home was interrupted. Call recover(\"$home\") again, and start the query then."
      )
}
