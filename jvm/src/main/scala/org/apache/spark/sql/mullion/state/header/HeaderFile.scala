package org.apache.spark.sql.mullion.state.header

import java.nio.charset.StandardCharsets.UTF_8

import scala.io.Source
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s.{Formats, JValue}
import org.json4s.jackson.{JsonMethods, Serialization}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.mullion.shim.SparkLineShim

import dev.mullion.MullionException

/** A small file of JSON beside an operator's state that says what it means. It is written once.
  *
  * @param of
  *   what its JSON says
  */
private[mullion] final class HeaderFile[T <: AnyRef](name: String, of: JValue => T)(implicit formats: Formats)
    extends Logging {

  private def path(operatorRoot: Path): Path = new Path(operatorRoot, s"_mullion/$name")

  def read(operatorRoot: Path, hadoopConf: Configuration): Option[T] = {
    val files = CheckpointFileManager.create(operatorRoot, hadoopConf)
    val file = path(operatorRoot)
    Option.when(files.exists(file)) {
      val text = Using.resource(files.open(file))(in => Source.fromInputStream(in, UTF_8.name).mkString)
      try of(JsonMethods.parse(text))
      catch {
        case NonFatal(_) =>
          val cause =
            if (text.isEmpty) "is empty" else s"is cut short or is not what Mullion writes (${text.length} characters)"
          throw damaged(operatorRoot, s"the file $file, which says what the state beside it means, $cause")
      }
    }
  }

  private def damaged(operatorRoot: Path, what: String): MullionException = MullionException.damagedState(
    s"In the checkpoint ${operatorRoot.getParent.getParent} $what. Nothing was written. Restore the file from a copy of " +
      "the checkpoint, as it was when the query began; or start the query with a new checkpointLocation, and a new place " +
      "for what it puts out."
  )

  /** Compares an operator with the state that it is about to use, and fails before anything is written if they differ;
    * in a new checkpoint, writes what the state will mean.
    *
    * @param others
    *   whose the state is if it is not the operator's
    * @param isWritten
    *   whether batches have been committed, so that the file must be there
    * @param differences
    *   between what was and what is, in words
    * @param replaces
    *   whether what is may be written in place of what was, for nothing in the state is of what differs
    * @param renames
    *   whether only names differ, of which the newest are kept
    */
  def check(
      info: SparkLineShim.StateInfo,
      hadoopConf: Configuration,
      now: T,
      others: String,
      isWritten: Boolean,
      replaces: (T, T) => Boolean = (_: T, _: T) => false,
      renames: (T, T) => Boolean = (_: T, _: T) => false
  )(
      differences: (T, T) => Seq[String]
  ): Unit = {
    val root = new Path(info.checkpointLocation, info.operatorId.toString)
    read(root, hadoopConf) match {
      case Some(was) if replaces(was, now) =>
        // Spark's own note of the types, which it makes again. First: ours is what says that there is something to do.
        CheckpointFileManager.create(root, hadoopConf).delete(new Path(root, "0/_metadata/schema"))
        write(root, hadoopConf, now, replacing = true)
      case Some(was) if renames(was, now) =>
        logInfo(s"Columns over the state in $root have other names than before: the query goes on with these.")
        write(root, hadoopConf, now, replacing = true)
      case Some(was) =>
        val found = differences(was, now)
        if (found.nonEmpty)
          throw MullionException.incompatibleState(
            s"The checkpoint ${new Path(info.checkpointLocation).getParent} holds state of $others (operator " +
              s"${info.operatorId}). ${found.mkString("; ")}. Nothing was overwritten. Start the changed query with a " +
              "new checkpointLocation, or change it back."
          )
      case None if isWritten =>
        throw damaged(
          root,
          s"the file ${path(root)} is missing, which says what the state of ${info.storeVersion} batches means: a query " +
            "that has changed could not be told from the one that wrote it"
        )
      case None => write(root, hadoopConf, now)
    }
  }

  def write(operatorRoot: Path, hadoopConf: Configuration, header: T, replacing: Boolean = false): Unit = {
    val file = path(operatorRoot)
    val files = CheckpointFileManager.create(operatorRoot, hadoopConf)
    files.mkdirs(file.getParent)
    val out = files.createAtomic(file, overwriteIfPossible = replacing)
    try {
      out.write(Serialization.writePretty(header).getBytes(UTF_8))
      out.close()
    } catch {
      case e: Throwable =>
        out.cancel()
        throw e
    }
  }
}
