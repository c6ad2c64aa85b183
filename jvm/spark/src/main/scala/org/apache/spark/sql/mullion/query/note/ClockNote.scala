package org.apache.spark.sql.mullion.query.note

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** The processing time of a query while the machine's clock is behind it, in the query's checkpoint.
  *
  * {{{
  *   batch             7      8      9     ..    60     61
  *   machine's clock   12:00  11:00  11:01 ..    11:20  12:01
  *   processing time   12:00  12:00  12:00 ..    12:00  12:01
  *                            noted
  * }}}
  *
  * A query that restarts at batch 60 finds no earlier batch with timestamp 12:00 in Spark's log. Without the note, its
  * panes would close again.
  *
  * @param batch
  *   the first one with that time before it
  * @param timeUs
  *   processing time before it, in microseconds since the epoch
  */
private[mullion] final case class ClockNote(batch: Long, timeUs: Long) {

  def write(files: CheckpointFileManager, home: Path): Unit = ClockNote.file.write(files, home, batch, timeUs)
}

private[mullion] object ClockNote {
  private val file = new BatchNote("mullion-clock", "mullion clock 1")

  /** The latest note of a checkpoint's query, if any. */
  def read(files: CheckpointFileManager, home: Path): Option[ClockNote] =
    file.read(files, home).map { case (batch, timeUs) => ClockNote(batch, timeUs) }
}
