package org.apache.spark.sql.mullion.pyfunction.branch

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{UUID, WeakHashMap}

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s._

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.mullion.query.RunningQuery
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.header.HeaderFile

/** The location of the state of a branch, a window between two stages. It is identified by the window's name, so
  * windows may be added, removed and reordered between starts of the query.
  *
  * {{{
  *   batch                     0 1 2 3 4 5 6 7 8 9
  *   fast, there from the start  1 2 3 4 5 6 7 8 9 10     version of its state after the batch
  *   slow, since batch 3               1 2 3 4 5 6 7
  *   once, gone in 4 to 6        1 2 3 4       5 6 7      and so since batch 3, once it is back
  * }}}
  *
  * The state of a removed window is kept.
  *
  * @param number
  *   identifies the window among those of its operator, and is none of Spark's numbers
  * @param since
  *   the batch in which its state begins
  * @param gone
  *   the first batch without it, while it is removed
  */
private[mullion] final case class BranchState(
    name: String,
    number: Long,
    since: Long,
    partitions: Int,
    gone: Option[Long] = None
) {

  /** The entry for a batch in which the window returns. */
  def backIn(batch: Long): BranchState = gone.fold(this)(left => copy(since = since + batch - left, gone = None))

  /** The entry for a batch in which it is removed. */
  def goneIn(batch: Long): BranchState = copy(gone = gone orElse Some(batch))

  /** The version of its state after a batch. */
  def versionAfter(batch: Long): Long = gone.fold(batch + 1)(Math.min(_, batch + 1)) - since

  /** Spark's state information for an operator with this state. */
  def info(of: SparkVersionShim.StateInfo): SparkVersionShim.StateInfo = of.copy(
    checkpointLocation = BranchState.folder(of, name).toString,
    operatorId = number,
    storeVersion = of.storeVersion - since,
    stateSchemaMetadata = None,
    stateStoreCkptIds = None
  )
}

private[mullion] object BranchState {
  private implicit val formats: Formats = DefaultFormats

  /** Not every file manager can replace a file. Each entry of a branch is therefore a numbered file, and the last one
    * counts.
    */
  private def file(number: Long): HeaderFile[BranchState] =
    new HeaderFile[BranchState](s"place.$number.json", _.extract[BranchState])

  private val Noted = """place\.(\d+)\.json""".r

  private def numbers(files: CheckpointFileManager, folder: Path): Seq[Long] = {
    val noted = new Path(folder, "_mullion")
    if (!files.exists(noted)) Nil
    else files.list(noted).toSeq.map(_.getPath.getName).collect { case Noted(number) => number.toLong }
  }

  private def note(files: CheckpointFileManager, folder: Path, hadoopConf: Configuration, branch: BranchState): Unit = {
    val before = numbers(files, folder)
    file(before.maxOption.fold(0L)(_ + 1)).write(folder, hadoopConf, branch)
    before.foreach(number => files.delete(new Path(folder, s"_mullion/place.$number.json")))
  }

  /** Records the state of a branch in a savepoint. */
  def write(operator: Path, hadoopConf: Configuration, branch: BranchState): Unit =
    note(CheckpointFileManager.create(operator, hadoopConf), folderOf(operator, branch.name), hadoopConf, branch)

  /** Far from the numbers that Spark assigns. */
  private val First = 1000000L

  // Entries are removed with their query, so they must not reference it.
  private val ofQueries = new WeakHashMap[StreamExecution, mutable.Map[Long, Map[String, BranchState]]]()

  /** The windows of an operator of a running query, by name; none before its first batch. */
  def of(session: SparkSession, runId: UUID, operator: Long): Map[String, BranchState] = ofQueries.synchronized {
    (for {
      query <- RunningQuery.find(session, runId)
      existing <- Option(ofQueries.get(query))
      windows <- existing.get(operator)
    } yield windows).getOrElse(Map.empty)
  }

  /** Finds the states of an operator's branches when its query starts, and creates those of new ones.
    *
    * @param check
    *   fails for a window that differs from that of the state. All are checked before anything is written.
    */
  def settle(
      session: SparkSession,
      info: SparkVersionShim.StateInfo,
      windows: Seq[String],
      hadoopConf: Configuration
  )(check: BranchState => Unit): Unit = {
    val operator = new Path(info.checkpointLocation, info.operatorId.toString)
    val files = CheckpointFileManager.create(operator, hadoopConf)
    val noted = all(operator, hadoopConf)
    val batch = info.storeVersion
    // Entries of an uncommitted batch do not count.
    val (begun, unbegun) = noted.partition(_.versionAfter(batch - 1) > 0)
    val existing = begun.map(branch => branch.name -> branch).toMap
    val next = (noted.map(_.number) :+ (First * (info.operatorId + 1) - 1)).max + 1
    val there = windows.map(name => existing.get(name).map(_.backIn(batch)).toRight(name))
    there.foreach(_.foreach(check))
    unbegun.foreach(branch => files.delete(folderOf(operator, branch.name)))
    val fresh = there.flatMap(_.left.toSeq).zipWithIndex.map { case (name, i) =>
      BranchState(name, next + i, since = batch, info.numPartitions)
    }
    fresh.foreach { branch =>
      files.delete(folderOf(operator, branch.name))
      note(files, folderOf(operator, branch.name), hadoopConf, branch)
      check(branch)
    }
    val gone = begun.filterNot(branch => windows.contains(branch.name)).map(_.goneIn(batch))
    (there.flatMap(_.toSeq) ++ gone)
      .filterNot(noted.contains)
      .foreach(branch => note(files, folderOf(operator, branch.name), hadoopConf, branch))
    val settled = (there.flatMap(_.toSeq) ++ fresh).map(branch => branch.name -> branch).toMap
    ofQueries.synchronized {
      RunningQuery.find(session, info.queryRunId).foreach { query =>
        ofQueries
          .computeIfAbsent(query, _ => mutable.Map.empty[Long, Map[String, BranchState]])
          .update(info.operatorId, settled)
      }
    }
  }

  /** All branches in the state of an operator, including removed ones. */
  def all(operator: Path, hadoopConf: Configuration): Seq[BranchState] = {
    val home = new Path(operator, Folder)
    val files = CheckpointFileManager.create(home, hadoopConf)
    if (!files.exists(home)) Nil
    else
      files
        .list(home)
        .toSeq
        .map(_.getPath)
        .flatMap(folder => numbers(files, folder).maxOption.flatMap(file(_).read(folder, hadoopConf)))
        .sortBy(_.number)
  }

  def folderOf(operator: Path, name: String): Path = new Path(new Path(operator, Folder), quoted(name))

  private def folder(info: SparkVersionShim.StateInfo, name: String): Path =
    folderOf(new Path(info.checkpointLocation, info.operatorId.toString), name)

  private val Folder = "_windows"

  /** Quotes a name like `folder_name` of the Python package. */
  private[pyfunction] def quoted(name: String): String = {
    val bytes = name.getBytes(UTF_8)
    val text = bytes.zipWithIndex.map { case (byte, i) =>
      val c = (byte & 0xff).toChar
      val plain = c < 128 && (Character.isLetterOrDigit(c) || "_.-~ ".indexOf(c.toInt) >= 0)
      if (plain && !(i == 0 && (c == '_' || c == '.'))) c.toString else f"%%${c.toInt}%02X"
    }
    text.mkString
  }
}
