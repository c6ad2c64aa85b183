package org.apache.spark.sql.mullion.state.attempt

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{UUID, WeakHashMap}

import scala.annotation.tailrec
import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state.StateStoreConf
import org.apache.spark.sql.mullion.query.RunningQuery
import org.apache.spark.sql.mullion.query.note.CheckpointFiles
import org.apache.spark.sql.mullion.shim.SparkVersionShim

/** The number of a query's run among all runs over an operator's state. A run takes the next number before its first
  * batch, as a file next to the state:
  *
  * {{{
  *   state/0/_mullion/run.7.4e0c3a52-66dd-4b3c-a6ac-4d0e4e8eb5be
  * }}}
  *
  * It orders the attempts of different runs: tasks of an ended run may still write.
  */
private[mullion] object RunNumber {

  /** Carries the number to the tasks. */
  val Setting = "spark.sql.streaming.stateStore.mullion.run"

  private val Named = """run\.(\d{1,18})\.[^.]+""".r

  // Entries are removed with their query, so they must not reference it.
  private val ofQueries = new WeakHashMap[StreamExecution, mutable.Map[Path, Long]]()

  /** The number of a task's run; 0 outside of a query. */
  def in(conf: StateStoreConf): Long = conf.sqlConfs.get(Setting).fold(0L)(_.toLong)

  /** The number of the run that executes a batch; 0 outside of a query, as in `explain`. */
  def of(session: SparkSession, info: SparkVersionShim.StateInfo): Long = ofQueries.synchronized {
    RunningQuery.find(session, info.queryRunId).fold(0L) { query =>
      val root = new Path(info.checkpointLocation, info.operatorId.toString)
      ofQueries
        .computeIfAbsent(query, _ => mutable.Map.empty[Path, Long])
        .getOrElseUpdate(root, take(root, info.queryRunId, session.sessionState.newHadoopConf()))
    }
  }

  /** Takes the next number.
    *
    * @param root
    *   the folder of the operator's state
    */
  def take(root: Path, run: UUID, hadoopConf: Configuration): Long = {
    val folder = new Path(root, "_mullion")
    val files = CheckpointFileManager.create(folder, hadoopConf)
    files.mkdirs(folder)
    take(files, folder, run)
  }

  /** If several processes take a number at the same time, at most one keeps it: each first creates its own file and
    * then looks for others. This needs no atomic creation of files.
    */
  @tailrec
  private def take(files: CheckpointFileManager, folder: Path, run: UUID): Long = {
    val number = taken(files, folder).map(_._1).maxOption.getOrElse(0L) + 1
    val file = new Path(folder, s"run.$number.$run")
    CheckpointFiles.write(files, file, run.toString.getBytes(UTF_8))
    val (others, before) = taken(files, folder).filterNot(_._2 == file.getName).partition(_._1 >= number)
    if (others.isEmpty) {
      before.foreach { case (_, name) => files.delete(new Path(folder, name)) }
      number
    } else {
      files.delete(file)
      take(files, folder, run)
    }
  }

  private def taken(files: CheckpointFileManager, folder: Path): Seq[(Long, String)] =
    files.list(folder).toSeq.map(_.getPath.getName).collect { case name @ Named(number) => number.toLong -> name }
}
