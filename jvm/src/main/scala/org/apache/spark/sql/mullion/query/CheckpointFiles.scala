package org.apache.spark.sql.mullion.query

import java.io.OutputStream

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import dev.mullion.MullionException

/** What Spark says of a checkpoint's files that it cannot read, in our words. */
private[mullion] object CheckpointFiles {

  def reading[T](checkpoint: String)(read: => T): T =
    try read
    catch {
      case e: MullionException => throw e
      case NonFatal(e)         =>
        val says = Option(e.getMessage).fold("")(message => s": ${message.linesIterator.next().stripSuffix(".")}")
        throw MullionException.damagedState(
          s"The checkpoint $checkpoint cannot be read (${e.getClass.getSimpleName}$says). Restore what is missing or damaged " +
            "from a copy of the checkpoint; or start the query with a new checkpointLocation, and a new place for what it " +
            "puts out."
        )
    }

  /** A small file of ours says what nobody wrote. */
  def damagedNote(path: Path): MullionException = MullionException.damagedState(
    s"$path is damaged: without what it says, a query could go on wrongly. Restore it from a copy of the checkpoint."
  )

  def read(files: CheckpointFileManager, path: Path): Array[Byte] =
    Using.resource(files.open(path))(_.readAllBytes())

  def write(files: CheckpointFileManager, path: Path, says: Array[Byte]): Unit =
    replace(files, path) { out => out.write(says); out.close() }

  /** Writes a file that may be there already. A file manager that is asked to overwrite may leave it as it is. */
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
