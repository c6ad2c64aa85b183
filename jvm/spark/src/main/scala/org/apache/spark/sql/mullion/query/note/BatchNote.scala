package org.apache.spark.sql.mullion.query.note

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** A small file in a query's checkpoint with one number for one batch, below a line with its format.
  *
  * @param name
  *   of the file
  */
private[query] final class BatchNote(name: String, format: String) {
  private val Line = """(\d{1,18}) (-?\d{1,18})""".r

  private def path(home: Path): Path = new Path(home, name)

  /** The batch and its number, if recorded; fails if the file is damaged. */
  def read(files: CheckpointFileManager, home: Path): Option[(Long, Long)] =
    Option.when(files.exists(path(home)))(CheckpointFiles.read(files, path(home))).map { said =>
      new String(said, UTF_8).linesIterator.toSeq match {
        case Seq(`format`, Line(batch, number)) => (batch.toLong, number.toLong)
        case _                                  => throw CheckpointFiles.damagedNote(path(home))
      }
    }

  def write(files: CheckpointFileManager, home: Path, batch: Long, number: Long): Unit =
    CheckpointFiles.write(files, path(home), s"$format\n$batch $number\n".getBytes(UTF_8))

  def delete(files: CheckpointFileManager, home: Path): Unit = files.delete(path(home))
}
