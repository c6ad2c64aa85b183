package org.apache.spark.sql.mullion.query.note

import java.io.OutputStream

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import dev.mullion.MullionException

/** Translates Spark's errors about unreadable checkpoint files. */
private[mullion] object CheckpointFiles {

  def reading[T](checkpoint: String)(read: => T): T =
    try read
    catch {
      case e: MullionException => throw e
      case NonFatal(e)         =>
        val message = Option(e.getMessage).fold("")(message => s": ${message.linesIterator.next().stripSuffix(".")}")
        throw MullionException.damagedState(
          s"The checkpoint $checkpoint cannot be read (${e.getClass.getSimpleName}$message). Restore missing or damaged files " +
            "from a copy of the checkpoint; or start the query with a new checkpointLocation, and a new place for its output."
        )
    }

  /** The error for a file of Mullion with invalid content. */
  def damagedNote(path: Path): MullionException = MullionException.damagedState(
    s"$path is damaged: without its content a query could continue wrongly. Restore it from a copy of the checkpoint."
  )

  def read(files: CheckpointFileManager, path: Path): Array[Byte] =
    Using.resource(files.open(path))(_.readAllBytes())

  def write(files: CheckpointFileManager, path: Path, content: Array[Byte]): Unit =
    replace(files, path) { out => out.write(content); out.close() }

  /** Writes a file that may exist. A file manager may ignore a request to overwrite. */
  def replace(files: CheckpointFileManager, path: Path)(write: OutputStream => Unit): Unit = {
    files.mkdirs(path.getParent)
    if (files.exists(path)) files.delete(path)
    val out = files.createAtomic(path, overwriteIfPossible = true)
    try write(out)
    catch {
      case e: Throwable =>
        out.cancel()
        throw e
    }
  }
}
