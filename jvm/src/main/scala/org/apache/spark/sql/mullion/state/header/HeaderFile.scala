package org.apache.spark.sql.mullion.state.header

import java.nio.charset.StandardCharsets.UTF_8

import scala.io.Source
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.mullion.shim.SparkLineShim

import dev.mullion.MullionException

/** A small file of JSON beside an operator's state that says what it means. It is written once; if its meaning changes
  * with a version of the state, another file says so, with the number of that version in its name.
  *
  * @param of
  *   what its JSON says
  */
private[mullion] final class HeaderFile[T <: AnyRef](name: String, of: JValue => T) extends Logging {

  private val (stem, ending) = name.splitAt(name.lastIndexOf('.'))
  private val Versioned =
    (java.util.regex.Pattern.quote(stem) + """\.(\d+)""" + java.util.regex.Pattern.quote(ending)).r

  private def path(operatorRoot: Path): Path = new Path(operatorRoot, s"_mullion/$name")

  private def pathFrom(operatorRoot: Path, version: Long): Path =
    if (version == 0) path(operatorRoot) else new Path(operatorRoot, s"_mullion/$stem.$version$ending")

  /** The versions that have a file of their own. */
  private def versions(operatorRoot: Path, files: CheckpointFileManager): Seq[Long] = {
    val folder = path(operatorRoot).getParent
    if (!files.exists(folder)) Nil
    else files.list(folder).toSeq.map(_.getPath.getName).collect { case Versioned(version) => version.toLong }
  }

  def read(operatorRoot: Path, hadoopConf: Configuration): Option[T] = readIn(operatorRoot, hadoopConf, version = 0)

  /** What holds of a version. */
  def readAt(operatorRoot: Path, hadoopConf: Configuration, version: Long): Option[T] =
    readIn(operatorRoot, hadoopConf, from(operatorRoot, hadoopConf, version))

  /** The version since when holds what holds of this one. */
  private def from(operatorRoot: Path, hadoopConf: Configuration, version: Long): Long = {
    val files = CheckpointFileManager.create(operatorRoot, hadoopConf)
    versions(operatorRoot, files).filter(_ <= version).maxOption.getOrElse(0L)
  }

  /** Deletes the files of versions after this one; whether there were such. */
  def forgetAfter(operatorRoot: Path, hadoopConf: Configuration, version: Long): Boolean = {
    val files = CheckpointFileManager.create(operatorRoot, hadoopConf)
    val after = versions(operatorRoot, files).filter(_ > version)
    after.foreach(v => files.delete(pathFrom(operatorRoot, v)))
    after.nonEmpty
  }

  /** Writes what holds from a version on, in place of what an attempt before this one may have written. */
  def writeFrom(version: Long, operatorRoot: Path, hadoopConf: Configuration, header: T): Unit = {
    val file = pathFrom(operatorRoot, version)
    // Not every file manager can replace a file.
    CheckpointFileManager.create(operatorRoot, hadoopConf).delete(file)
    write(file, hadoopConf, header, replacing = false)
  }

  private def readIn(operatorRoot: Path, hadoopConf: Configuration, version: Long): Option[T] = {
    val files = CheckpointFileManager.create(operatorRoot, hadoopConf)
    val file = pathFrom(operatorRoot, version)
    Option.when(files.exists(file)) {
      val text = Using.resource(files.open(file))(in => Source.fromInputStream(in, UTF_8.name).mkString)
      try {
        val json = JsonMethods.parse(text)
        // What is not there is left out.
        require(json.find(_ == JNull).isEmpty)
        of(json)
      } catch {
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
    * @param continuing
    *   what is, going on from what was
    * @param change
    *   what becomes of the state, where it may change
    */
  def check(
      info: SparkLineShim.StateInfo,
      hadoopConf: Configuration,
      now: T,
      others: String,
      isWritten: Boolean,
      replaces: (T, T) => Boolean = (_: T, _: T) => false,
      renames: (T, T) => Boolean = (_: T, _: T) => false,
      continuing: (T, T) => T = (now: T, _: T) => now,
      change: (T, T) => Option[StateChange] = (_: T, _: T) => None
  )(
      differences: (T, T) => Seq[String]
  ): Unit = {
    val root = new Path(info.checkpointLocation, info.operatorId.toString)
    val since = from(root, hadoopConf, info.storeVersion)
    // Of a query that was about to change. The batch that it was in says whether it did: a sink may have its rows, and
    // then it is not run again. Later ones are of a checkpoint that was taken back.
    forgetAfter(root, hadoopConf, info.storeVersion + 1)
    val wasAboutTo = from(root, hadoopConf, info.storeVersion + 1) > info.storeVersion
    readIn(root, hadoopConf, since) match {
      case Some(was) if replaces(was, now) =>
        // Spark's own note of the types, which it makes again. First: ours is what says that there is something to do.
        forgetSchema(root, hadoopConf)
        write(pathFrom(root, since), hadoopConf, now, replacing = true)
      case Some(was) if renames(was, now) =>
        logInfo(s"Columns over the state in $root have other names than before: the query goes on with these.")
        if (wasAboutTo) forgetSchema(root, hadoopConf)
        write(pathFrom(root, since), hadoopConf, continuing(now, was), replacing = true)
      case Some(was) =>
        val found = differences(was, now)
        val becomes = if (found.isEmpty) StateChange.none else change(was, now).getOrElse(StateChange(Nil, found))
        if (becomes.refused.nonEmpty)
          throw MullionException.incompatibleState(
            s"The checkpoint ${new Path(info.checkpointLocation).getParent} holds state of $others (operator " +
              s"${info.operatorId}). ${becomes.refused.mkString("; ")}. Nothing was overwritten. Start the changed query with a " +
              "new checkpointLocation, or change it back."
          )
        val changes = becomes.drains ++ becomes.drops ++ becomes.goesOn
        if (changes.nonEmpty)
          logWarning(s"The query over the state in $root has changed and goes on: ${changes.mkString("; ")}.")
        // Of a batch that was not run again, Spark may have noted the types of another query.
        val isOfLastBatch = info.storeVersion == 1 || since > 0 && since == info.storeVersion
        if (wasAboutTo || isOfLastBatch || changes.nonEmpty) forgetSchema(root, hadoopConf)
      case None if isWritten =>
        throw damaged(
          root,
          s"the file ${path(root)} is missing, which says what the state of ${info.storeVersion} batches means: a query " +
            "that has changed could not be told from the one that wrote it"
        )
      case None => write(root, hadoopConf, now)
    }
  }

  /** Spark's own note of the types, which it makes again. */
  private def forgetSchema(operatorRoot: Path, hadoopConf: Configuration): Unit =
    CheckpointFileManager.create(operatorRoot, hadoopConf).delete(new Path(operatorRoot, "0/_metadata/schema"))

  def write(operatorRoot: Path, hadoopConf: Configuration, header: T): Unit =
    write(path(operatorRoot), hadoopConf, header, replacing = false)

  private def write(file: Path, hadoopConf: Configuration, header: T, replacing: Boolean): Unit = {
    val files = CheckpointFileManager.create(file.getParent, hadoopConf)
    files.mkdirs(file.getParent)
    val out = files.createAtomic(file, overwriteIfPossible = replacing)
    try {
      out.write(HeaderJson.text(header).getBytes(UTF_8))
      out.close()
    } catch {
      case e: Throwable =>
        out.cancel()
        throw e
    }
  }
}
