package org.apache.spark.sql.mullion.checkpoint.recover

import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, OffsetSeqLog}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.mullion.query.StreamWatermarks
import org.apache.spark.sql.mullion.query.note.{CheckpointFiles, RecoveryNote, WatermarkNote}
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.header.OperatorHeader

import dev.mullion.MullionException

/** Resets a query that has lost state to the newest version that can be read.
  *
  * A checkpoint contains the offsets that each batch read (`offsets`) and the committed batches (`commits`). Spark
  * starts with the state of the last of them. If that state is lost, the entries of later batches are replaced by those
  * of an earlier batch S, and the state of S becomes their state:
  *
  * {{{
  *   batch      ..  S  ..  N-1  N              ..  S  ..  N-1  N   N+1
  *   read to        40     70   80      ->         40     40   40  80 (again from 40)
  *   state          *      -    -                  *           *
  * }}}
  *
  * Batch numbers are never reused, because sinks skip a number that they have seen. Nor are they skipped, because
  * Spark's file sink requires each. A batch that was begun and not committed therefore runs again without rows, with
  * the watermark of batch S, by which all due panes have closed. The watermark that it had left for the next batch is
  * recorded and used then ([[WatermarkNote]]).
  *
  * Existing files are deleted before they are rewritten, so an interruption would leave a checkpoint with less
  * information. The plan is therefore recorded first, and an interrupted recovery is repeated from it: each step is
  * idempotent.
  */
object Recovery {

  /** The plan of a recovery: the log entries up to the last batch, `begun`, become those of `batch`, whose state
    * exists.
    *
    * @param done
    *   the last committed batch
    */
  private final case class Plan(batch: Long, done: Long, begun: Long) {
    def goesOnFrom: Long = done + 1

    def text: String = s"$Format\n$batch $done $begun\n"
  }

  private val Format = "mullion recovery 1"

  /** Returns the number of batches that will run again; none if the query can continue unchanged. */
  def recover(spark: SparkSession, checkpoint: String): Long =
    spark.withActive(recover(spark, checkpoint, new StateVersions(spark, _)))

  private[checkpoint] def recover(spark: SparkSession, checkpoint: String, versionsOf: Path => KeptVersions): Long = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val path = new Path(checkpoint)
    val home = path.getFileSystem(hadoopConf).makeQualified(path)
    refuseRunning(spark, home)
    val files = CheckpointFileManager.create(home, hadoopConf)
    if (!files.exists(new Path(home, "state")))
      throw MullionException.invalid(
        s"There is no state in $checkpoint: it has no folder 'state'. Give the checkpointLocation of a query with a window."
      )
    val versions = versionsOf(home)
    CheckpointFiles.reading(checkpoint)(whatToDo(spark, files, home, versions)) match {
      case Some(plan) =>
        carryOut(spark, files, home, hadoopConf, plan, versions)
        plan.begun - plan.batch
      case None =>
        files.delete(RecoveryNote.path(home))
        0L
    }
  }

  /** None if the query can continue unchanged. */
  private def whatToDo(
      spark: SparkSession,
      files: CheckpointFileManager,
      home: Path,
      versions: KeptVersions
  ): Option[Plan] = {
    val offsets = new Path(home, "offsets")
    val commits = new Path(home, "commits")
    val noted = SparkVersionShim.commits(spark, commits).getLatestBatchId()
    val latest = new OffsetSeqLog(spark, offsets.toString).getLatestBatchId()
    // A batch begins when the previous one is committed, even if that entry is gone. The first batch needs no recovery:
    // it runs from the start.
    (noted ++ latest.map(_ - 1)).maxOption.filter(_ >= 0).flatMap { latestDone =>
      // An interrupted recovery has its target batch.
      val cutShort = planned(files, home).filter { plan =>
        latestDone <= plan.begun && Seq(offsets, commits).forall(log => files.exists(note(log, plan.batch)))
      }
      val done = cutShort.fold(latestDone)(_.done)
      // A query that was started in between has begun a batch, and is rejected then.
      val begun = (Seq(done) ++ latest ++ cutShort.map(_.begun)).max
      val complete = versions
        .upTo(done + 1)
        .filter(version => Seq(offsets, commits).forall(log => files.exists(note(log, version - 1))))
      val newest = (cutShort.map(_.batch + 1).filter(complete.contains) ++ complete.toSeq.sorted.reverse)
        .find(versions.isWhole)
        .getOrElse(throw noVersion(home.toUri.getPath))
      // The batch that was begun, if any, starts from the state of the last one.
      Option.unless(cutShort.isEmpty && newest > done)(Plan(newest - 1, done, begun))
    }
  }

  private def carryOut(
      spark: SparkSession,
      files: CheckpointFileManager,
      home: Path,
      hadoopConf: Configuration,
      plan: Plan,
      versions: KeptVersions
  ): Unit = {
    val offsets = new Path(home, "offsets")
    val commits = new Path(home, "commits")
    CheckpointFiles.write(files, RecoveryNote.path(home), plan.text.getBytes(UTF_8))
    // For all batches in between: each gets the state of batch S, so that a later recovery may use any.
    (plan.batch + 1 to plan.begun).foreach(b => copy(files, note(offsets, plan.batch), note(offsets, b)))
    val ids = versions.carry(plan.batch + 1, to = plan.goesOnFrom)
    (plan.batch + 1 to plan.done).foreach { b =>
      CheckpointFiles.write(files, note(commits, b), commit(files, note(commits, plan.batch), ids.get(b + 1)))
    }
    if (plan.begun > plan.done)
      SparkVersionShim.commits(spark, commits).get(plan.batch).map(_.nextBatchWatermarkMs).foreach {
        WatermarkNote(plan.begun, _).write(files, home)
      }
    else WatermarkNote.delete(files, home)
    StreamWatermarks.logOf(spark, home).forgetAfter(plan.batch)
    // Later changes of the query are undone too.
    operatorsIn(files, home).foreach(OperatorHeader.forgetAfter(_, hadoopConf, plan.batch + 1))
    files.delete(RecoveryNote.path(home))
  }

  /** The commit of a batch, with the ids of another version if it has ids. */
  private def commit(files: CheckpointFileManager, of: Path, ids: Option[Seq[(Long, Seq[String])]]): Array[Byte] = {
    val content = CheckpointFiles.read(files, of)
    val lines = new String(content, UTF_8).linesIterator.toSeq
    val noted = lines.lift(1).map(JsonMethods.parse(_))
    (noted.map(_ \ "stateUniqueIds"), noted, ids) match {
      case (Some(JObject(complete)), Some(all), Some(made)) if complete.nonEmpty =>
        val isKnown = complete.map(_._1).toSet
        val changed = made.collect {
          case (operator, partitions) if isKnown(operator.toString) =>
            operator.toString -> JArray(partitions.map(id => JArray(List(JString(id)))).toList)
        }
        val text = all.transformField { case ("stateUniqueIds", _) => "stateUniqueIds" -> JObject(changed.toList) }
        (lines.head + "\n" + JsonMethods.compact(JsonMethods.render(text))).getBytes(UTF_8)
      case _ => content
    }
  }

  /** The folders of the operators' state. */
  private def operatorsIn(files: CheckpointFileManager, home: Path): Seq[Path] =
    files.list(new Path(home, "state")).toSeq.map(_.getPath).filter(_.getName.forall(_.isDigit))

  private def noVersion(checkpoint: String): MullionException = MullionException.stateLost(
    s"There is no complete version of the state in $checkpoint. Start the query with a new checkpointLocation, and a " +
      "new place for its output: it reads its sources from their start."
  )

  /** The plan of an interrupted recovery; none if it was not recorded yet. */
  private def planned(files: CheckpointFileManager, home: Path): Option[Plan] = Option
    .when(RecoveryNote.isThere(files, home))(RecoveryNote.path(home))
    .flatMap { path =>
      new String(CheckpointFiles.read(files, path), UTF_8).linesIterator.toSeq match {
        case Seq(Format, PlanLine(batch, done, begun)) => Some(Plan(batch.toLong, done.toLong, begun.toLong))
        case _                                         => None
      }
    }

  private val PlanLine = """(\d+) (\d+) (\d+)""".r

  private def refuseRunning(spark: SparkSession, home: Path): Unit =
    spark.sharedState.activeStreamingQueries.values.asScala
      .collect { case query: StreamExecution => query }
      .find(query => new Path(query.resolvedCheckpointRoot).toUri.getPath == home.toUri.getPath)
      .foreach { query =>
        throw MullionException.invalid(
          s"The query ${Option(query.name).getOrElse(query.id)} runs on $home. Stop it first: query.stop()."
        )
      }

  private def note(log: Path, batch: Long): Path = new Path(log, batch.toString)

  private def copy(files: CheckpointFileManager, from: Path, to: Path): Unit =
    if (from != to) CheckpointFiles.write(files, to, CheckpointFiles.read(files, from))
}

/** The versions of a query's state that a recovery can use. */
private[checkpoint] trait KeptVersions {

  /** The versions up to `last` that all operators have. */
  def upTo(last: Long): Set[Long]

  /** True if each partition of a version can be read completely. */
  def isWhole(version: Long): Boolean

  /** Copies version `from` to all later versions up to `to`. Returns their ids. */
  def carry(from: Long, to: Long): KeptVersions.Ids
}

private[checkpoint] object KeptVersions {

  /** By version: the ids of each operator's partitions. */
  type Ids = Map[Long, Seq[(Long, Seq[String])]]
}
