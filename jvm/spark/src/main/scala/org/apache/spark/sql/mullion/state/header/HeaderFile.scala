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
import org.apache.spark.sql.mullion.shim.SparkVersionShim

import dev.mullion.MullionException

/** A small JSON file next to an operator's state that records its meaning. If the meaning changes with a version of the
  * state, a second file has the number of that version in its name.
  *
  * @param of
  *   parses its JSON
  */
private[mullion] final class HeaderFile[T <: AnyRef](name: String, of: JValue => T) extends Logging {

  private val (stem, ending) = name.splitAt(name.lastIndexOf('.'))
  private val Versioned =
    (java.util.regex.Pattern.quote(stem) + """\.(\d+)""" + java.util.regex.Pattern.quote(ending)).r

  private def path(operatorRoot: Path): Path = new Path(operatorRoot, s"_mullion/$name")

  private def pathFrom(operatorRoot: Path, version: Long): Path =
    if (version == 0) path(operatorRoot) else new Path(operatorRoot, s"_mullion/$stem.$version$ending")

  /** The versions with their own file. */
  private def versions(operatorRoot: Path, files: CheckpointFileManager): Seq[Long] = {
    val folder = path(operatorRoot).getParent
    if (!files.exists(folder)) Nil
    else files.list(folder).toSeq.map(_.getPath.getName).collect { case Versioned(version) => version.toLong }
  }

  def read(operatorRoot: Path, hadoopConf: Configuration): Option[T] = readIn(operatorRoot, hadoopConf, version = 0)

  /** The content for a version. */
  def readAt(operatorRoot: Path, hadoopConf: Configuration, version: Long): Option[T] =
    readIn(operatorRoot, hadoopConf, from(operatorRoot, hadoopConf, version))

  /** The first version with the same content. */
  private def from(operatorRoot: Path, hadoopConf: Configuration, version: Long): Long = {
    val files = CheckpointFileManager.create(operatorRoot, hadoopConf)
    versions(operatorRoot, files).filter(_ <= version).maxOption.getOrElse(0L)
  }

  /** Deletes the files of versions after this one. Returns whether there were any. */
  def forgetAfter(operatorRoot: Path, hadoopConf: Configuration, version: Long): Boolean = {
    val files = CheckpointFileManager.create(operatorRoot, hadoopConf)
    val after = versions(operatorRoot, files).filter(_ > version)
    after.foreach(v => files.delete(pathFrom(operatorRoot, v)))
    after.nonEmpty
  }

  /** Writes the content from a version on, replacing that of an earlier attempt. */
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
        // Missing values are omitted, not null.
        require(json.find(_ == JNull).isEmpty)
        of(json)
      } catch {
        case NonFatal(_) =>
          val cause =
            if (text.isEmpty) "is empty" else s"is truncated, or Mullion did not write it (${text.length} characters)"
          throw damaged(operatorRoot, s"the file $file, which describes the query's state, $cause")
      }
    }
  }

  private def damaged(operatorRoot: Path, what: String): MullionException = MullionException.damagedState(
    s"In the checkpoint ${operatorRoot.getParent.getParent} $what. Nothing was written. Restore the file from a copy of " +
      "the checkpoint, as it was when the query began; or start the query with a new checkpointLocation, and a new place " +
      "for its output."
  )

  /** Compares an operator with its state, and fails before anything is written if they differ. In a new checkpoint,
    * writes the meaning of the state.
    *
    * @param others
    *   the owner of the state if it is not the operator's
    * @param isWritten
    *   whether batches have been committed, so that the file must exist
    * @param differences
    *   between the previous and the current content, as text
    * @param replaces
    *   whether the current content may replace the previous one, because no state depends on the difference
    * @param renames
    *   whether only names differ; the newest are kept
    * @param continuing
    *   the current content as the continuation of the previous one
    * @param change
    *   the transition of the state, if it may change
    */
  def check(
      info: SparkVersionShim.StateInfo,
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
    // The batch of an interrupted change decides whether it happened: a sink may have its rows, and then it does not
    // run again. Files of later versions belong to a checkpoint that was reset.
    forgetAfter(root, hadoopConf, info.storeVersion + 1)
    val wasAboutTo = from(root, hadoopConf, info.storeVersion + 1) > info.storeVersion
    readIn(root, hadoopConf, since) match {
      case Some(was) if replaces(was, now) =>
        // Spark writes its schema file again. It must be deleted before Mullion's header is written, because that
        // header marks the work as done.
        forgetSchema(root, hadoopConf)
        write(pathFrom(root, since), hadoopConf, now, replacing = true)
      case Some(was) if renames(was, now) =>
        logInfo(s"Columns over the state in $root have other names than before: the query continues with these.")
        if (wasAboutTo) forgetSchema(root, hadoopConf)
        write(pathFrom(root, since), hadoopConf, continuing(now, was), replacing = true)
      case Some(was) =>
        val different = differences(was, now)
        val becomes =
          if (different.isEmpty) StateChange.none else change(was, now).getOrElse(StateChange(Nil, different))
        if (becomes.refused.nonEmpty)
          throw MullionException.incompatibleState(
            s"The checkpoint ${new Path(info.checkpointLocation).getParent} holds state of $others (operator " +
              s"${info.operatorId}). ${becomes.refused.mkString("; ")}. Nothing was overwritten. Start the changed query with a " +
              "new checkpointLocation, or change it back."
          )
        val changes = becomes.drains ++ becomes.drops ++ becomes.goesOn
        if (changes.nonEmpty)
          logWarning(s"The query over the state in $root has changed and continues: ${changes.mkString("; ")}.")
        // For a batch that did not run again, Spark's schema file may be another query's.
        val isOfLastBatch = info.storeVersion == 1 || since > 0 && since == info.storeVersion
        if (wasAboutTo || isOfLastBatch || changes.nonEmpty) forgetSchema(root, hadoopConf)
      case None if isWritten =>
        throw damaged(
          root,
          s"the file ${path(root)} is missing, which describes the state of ${info.storeVersion} batches: without it, a " +
            "changed query cannot be distinguished from the one that wrote the state"
        )
      case None => write(root, hadoopConf, now)
    }
  }

  /** Deletes Spark's schema file, which it writes again. */
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

private[mullion] object HeaderFile {

  /** The values of two headers that differ, as text. Both have the same names in the same order. */
  def differences(were: Seq[(String, String)], are: Seq[(String, String)]): Seq[String] = were.zip(are).collect {
    case ((name, was), (_, is)) if was != is => s"$name was [$was] and is now [$is]"
  }
}
