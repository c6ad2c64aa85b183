package org.apache.spark.sql.mullion.query.note

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** The first reading of an operator's event clock, in the query's checkpoint. Before it the clock is 0, so without the
  * note the step from 1970 to the first rows would count as an interval of early firings.
  *
  * {{{
  *   batch          0     1        2
  *   event clock    0     10:00    10:05
  *   panes count          from here
  * }}}
  *
  * A batch writes the note before it uses the reading, so a repeated batch has the same one. The note of a batch that a
  * recovery removed has no effect.
  *
  * @param batch
  *   the first one with a reading
  * @param ms
  *   the reading, in milliseconds since the epoch
  */
private[mullion] final case class FirstReading(batch: Long, ms: Long)

private[mullion] object FirstReading {
  private val Prefix = "mullion-first-reading-"

  private def file(operator: Long) = new BatchNote(s"$Prefix$operator", "mullion first reading 1")

  /** The note of an operator, if any. */
  def read(files: CheckpointFileManager, home: Path, operator: Long): Option[FirstReading] =
    file(operator).read(files, home).map { case (batch, ms) => FirstReading(batch, ms) }

  def write(files: CheckpointFileManager, home: Path, operator: Long, first: FirstReading): Unit =
    file(operator).write(files, home, first.batch, first.ms)

  /** Copies the notes of all operators to another checkpoint. */
  def copy(from: CheckpointFileManager, home: Path, files: CheckpointFileManager, to: Path): Unit =
    from.list(home).map(_.getPath).filter(_.getName.startsWith(Prefix)).foreach { note =>
      CheckpointFiles.write(files, new Path(to, note.getName), CheckpointFiles.read(from, note))
    }
}
