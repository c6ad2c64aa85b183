package org.apache.spark.sql.mullion.checkpoint

import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, OffsetSeqLog}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.mullion.query.{CheckpointFiles, RecoveryNote, WatermarkNote}
import org.apache.spark.sql.mullion.shim.SparkLineShim
import org.apache.spark.sql.mullion.state.header.OperatorHeader

import dev.mullion.MullionException

/** Takes a query that has lost state back to the newest version that can be read.
  *
  * Spark keeps in a checkpoint how far each batch read (`offsets`) and which batches are done (`commits`), and starts
  * with the state that the last of them left. Where that state is lost, the notes of the last batches are made to say
  * what those of an earlier batch S say, and the state that S left becomes their state:
  *
  * {{{
  *   batch      ..  S  ..  N-1  N              ..  S  ..  N-1  N   N+1
  *   read to        40     70   80      ->         40     40   40  80 (again from 40)
  *   state          *      -    -                  *           *
  * }}}
  *
  * Numbers of batches are never used twice: sinks leave out what comes under a number that they have seen. Nor is one
  * left out, for Spark's file sink looks for each. So a batch that was begun and not done stays so, and does nothing
  * when it is done again: its watermark is that of batch S, by which all has closed that is due. What that batch left
  * as the watermark of the next is noted, and followed then ([[WatermarkNote]]).
  *
  * A file that is there already is deleted before it is written anew, and whoever dies in between leaves a checkpoint
  * that tells less than it did. So what is to be done is noted first, and done again from the note: every step may be.
  */
object Recovery {

  /** What a recovery does: the notes up to the last batch, `begun`, are to say what those of `batch` say, whose state
    * is there.
    *
    * @param done
    *   the last batch that was committed
    */
  private final case class Plan(batch: Long, done: Long, begun: Long) {
    def goesOnFrom: Long = done + 1

    def text: String = s"$Format\n$batch $done $begun\n"
  }

  private val Format = "mullion recovery 1"

  /** Returns how many batches the query will do again; none if it can go on as it is. */
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

  /** None where the query can go on as it is. */
  private def whatToDo(
      spark: SparkSession,
      files: CheckpointFileManager,
      home: Path,
      versions: KeptVersions
  ): Option[Plan] = {
    val offsets = new Path(home, "offsets")
    val commits = new Path(home, "commits")
    val noted = SparkLineShim.commits(spark, commits).getLatestBatchId()
    val latest = new OffsetSeqLog(spark, offsets.toString).getLatestBatchId()
    // A batch begins when the one before it is done, whether or not its note is there still. Of the first batch there is
    // nothing to go back to: it is done from the start.
    (noted ++ latest.map(_ - 1)).maxOption.filter(_ >= 0).flatMap { latestDone =>
      // A recovery that was cut short has the batch that it goes back to.
      val cutShort = planned(files, home).filter { plan =>
        latestDone <= plan.begun && Seq(offsets, commits).forall(log => files.exists(note(log, plan.batch)))
      }
      val done = cutShort.fold(latestDone)(_.done)
      // A query that is started in between begins a batch, and is refused then.
      val begun = (Seq(done) ++ latest ++ cutShort.map(_.begun)).max
      val known = versions
        .upTo(done + 1)
        .filter(version => Seq(offsets, commits).forall(log => files.exists(note(log, version - 1))))
      val newest = (cutShort.map(_.batch + 1).filter(known.contains) ++ known.toSeq.sorted.reverse)
        .find(versions.isWhole)
        .getOrElse(throw noVersion(home.toUri.getPath))
      // The batch that was begun, if there is one, starts from the state that the last one left.
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
    // Of all batches in between: the state of each is that of batch S, and a later recovery may go back to one.
    (plan.batch + 1 to plan.begun).foreach(b => copy(files, note(offsets, plan.batch), note(offsets, b)))
    val ids = versions.carry(plan.batch + 1, to = plan.goesOnFrom)
    (plan.batch + 1 to plan.done).foreach { b =>
      CheckpointFiles.write(files, note(commits, b), commit(files, note(commits, plan.batch), ids.get(b + 1)))
    }
    if (plan.begun > plan.done)
      SparkLineShim.commits(spark, commits).get(plan.batch).map(_.nextBatchWatermarkMs).foreach {
        WatermarkNote(plan.begun, _).write(files, home)
      }
    else WatermarkNote.delete(files, home)
    // What the query has changed since is given up too.
    operatorsIn(files, home).foreach(OperatorHeader.forgetAfter(_, hadoopConf, plan.batch + 1))
    files.delete(RecoveryNote.path(home))
  }

  /** What the commit of a batch says, with the ids of another version where it has ids. */
  private def commit(files: CheckpointFileManager, of: Path, ids: Option[Seq[(Long, Seq[String])]]): Array[Byte] = {
    val said = CheckpointFiles.read(files, of)
    val lines = new String(said, UTF_8).linesIterator.toSeq
    val noted = lines.lift(1).map(JsonMethods.parse(_))
    (noted.map(_ \ "stateUniqueIds"), noted, ids) match {
      case (Some(JObject(known)), Some(all), Some(made)) if known.nonEmpty =>
        val isKnown = known.map(_._1).toSet
        val changed = made.collect {
          case (operator, partitions) if isKnown(operator.toString) =>
            operator.toString -> JArray(partitions.map(id => JArray(List(JString(id)))).toList)
        }
        val text = all.transformField { case ("stateUniqueIds", _) => "stateUniqueIds" -> JObject(changed.toList) }
        (lines.head + "\n" + JsonMethods.compact(JsonMethods.render(text))).getBytes(UTF_8)
      case _ => said
    }
  }

  /** The folders of the operators' state. */
  private def operatorsIn(files: CheckpointFileManager, home: Path): Seq[Path] =
    files.list(new Path(home, "state")).toSeq.map(_.getPath).filter(_.getName.forall(_.isDigit))

  private def noVersion(checkpoint: String): MullionException = MullionException.stateLost(
    s"There is no complete version of the state in $checkpoint to go back to. Start the query with a new checkpointLocation, and a " +
      "new place for what it puts out: it reads its sources from their start."
  )

  /** What a recovery that was cut short was about to do; none if it had not noted it yet. */
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

/** The versions of its operators' state that a query can go back to. */
private[checkpoint] trait KeptVersions {

  /** The versions that all operators have, up to `last`. */
  def upTo(last: Long): Set[Long]

  /** True if each partition of a version can be read to its end. */
  def isWhole(version: Long): Boolean

  /** Has all versions after `from`, up to `to`, say what `from` says, and gives their ids. */
  def carry(from: Long, to: Long): KeptVersions.Ids
}

private[checkpoint] object KeptVersions {

  /** By version: the ids of each operator's partitions. */
  type Ids = Map[Long, Seq[(Long, Seq[String])]]
}
