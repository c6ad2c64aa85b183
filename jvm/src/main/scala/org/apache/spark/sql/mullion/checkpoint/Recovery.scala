package org.apache.spark.sql.mullion.checkpoint

import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, OffsetSeqLog}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state.StateStoreId
import org.apache.spark.sql.mullion.python.{BranchState, StatefulHeader}
import org.apache.spark.sql.mullion.query.{CheckpointFiles, WatermarkNote}
import org.apache.spark.sql.mullion.shim.SparkLineShim
import org.apache.spark.sql.mullion.state.StateChoice
import org.apache.spark.sql.mullion.state.header.OperatorHeader
import org.apache.spark.sql.mullion.state.store.MemorySnapshots

import dev.mullion.MullionException

/** Takes a query whose state was in memory back to its newest snapshot.
  *
  * Spark keeps in a checkpoint how far each batch read (`offsets`) and which batches are done (`commits`), and starts
  * with the state that the last of them left. That state is gone, but for a snapshot that an earlier batch left. So the
  * notes of the last batches are made to say what those of that batch say, and the snapshot becomes their state:
  *
  * {{{
  *   batch      ..  S  ..  N-1  N              ..  S  ..  N-1  N   N+1
  *   read to        40     70   80      ->         40     40   40  80 (again from 40)
  *   state          *      -    -                  *           *
  * }}}
  *
  * Numbers of batches are never used twice: sinks leave out what comes under a number that they have seen. Nor is one
  * left out, for Spark's file sink looks for each. So a batch that was begun and not done stays so, and does nothing
  * when it is done again: its watermark is that of the snapshot's batch, by which all has closed that is due. What that
  * batch left as the watermark of the next is noted, and followed then ([[WatermarkNote]]).
  *
  * A file that is there already is deleted before it is written anew, and whoever dies in between leaves a checkpoint
  * that tells less than it did. So what is to be done is noted first, and done again from the note: every step may be.
  */
object Recovery {

  /** What a recovery does: the notes up to the last batch, `begun`, are to say what those of `batch` say, whose
    * snapshot is there.
    *
    * @param done
    *   the last batch that was committed
    */
  private final case class Plan(batch: Long, done: Long, begun: Long) {
    def goesOnFrom: Long = done + 1

    def text: String = s"$Format\n$batch $done $begun\n"
  }

  private val Format = "mullion recovery 1"

  /** Gives how many batches the query will do again; none if it can go on as it is. */
  def recover(spark: SparkSession, checkpoint: String): Long = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val path = new Path(checkpoint)
    val home = path.getFileSystem(hadoopConf).makeQualified(path)
    refuseRunning(spark, home)
    val files = CheckpointFileManager.create(home, hadoopConf)
    if (!files.exists(new Path(home, "state")))
      throw MullionException.invalid(
        s"There is no state in $checkpoint: it has no folder 'state'. Give the checkpointLocation of a query with a window."
      )
    if (LostState.isBeingMade(files, home))
      throw MullionException.invalid(
        s"$checkpoint is a program's, whose batches were about to be done again: start the program, and it goes on."
      )
    CheckpointFiles.reading(checkpoint)(whatToDo(spark, files, home, hadoopConf)) match {
      case Some((plan, operators)) =>
        carryOut(spark, files, home, hadoopConf, plan, operators)
        plan.begun - plan.batch
      case None =>
        files.delete(planPath(home))
        0L
    }
  }

  /** None where the query can go on as it is. */
  private def whatToDo(
      spark: SparkSession,
      files: CheckpointFileManager,
      home: Path,
      hadoopConf: Configuration
  ): Option[(Plan, Seq[(Long, Int)])] = {
    val offsets = new Path(home, "offsets")
    val commits = new Path(home, "commits")
    val noted = SparkLineShim.commits(spark, commits).getLatestBatchId()
    val latest = new OffsetSeqLog(spark, offsets.toString).getLatestBatchId()
    // A batch begins when the one before it is done, whether or not its note is there still. Of the first batch there is
    // nothing to go back to: it is done from the start.
    (noted ++ latest.map(_ - 1)).maxOption.filter(_ >= 0).flatMap { latestDone =>
      // A recovery that was cut short has the batch that it goes back to.
      val cutShort = planned(files, home).filter { plan =>
        latestDone <= plan.begun && latest.forall(_ <= plan.begun) &&
        Seq(offsets, commits).forall(log => files.exists(note(log, plan.batch)))
      }
      val done = cutShort.fold(latestDone)(_.done)
      val begun = cutShort.fold(Math.max(done, latest.getOrElse(done)))(_.begun)
      val operators = inMemory(files, home, hadoopConf, done)
      val versions = versionsOf(spark, files, home, operators, goesOnFrom = done + 1)
      val newest = (cutShort.map(_.batch + 1).filter(versions.contains) ++ versions.toSeq.sorted.reverse)
        .find(isWhole(spark, home, operators, _))
        .getOrElse(throw noSnapshot(home.toUri.getPath))
      // The batch that was begun, if there is one, starts from the state that the last one left.
      Option.unless(cutShort.isEmpty && newest > done)(Plan(newest - 1, done, begun) -> operators)
    }
  }

  private def carryOut(
      spark: SparkSession,
      files: CheckpointFileManager,
      home: Path,
      hadoopConf: Configuration,
      plan: Plan,
      operators: Seq[(Long, Int)]
  ): Unit = {
    val offsets = new Path(home, "offsets")
    val commits = new Path(home, "commits")
    CheckpointFiles.write(files, planPath(home), plan.text.getBytes(UTF_8))
    // Spark reads the last two.
    (Math.max(plan.done - 1, plan.batch) to plan.begun).foreach(b =>
      copy(files, note(offsets, plan.batch), note(offsets, b))
    )
    copy(files, note(commits, plan.batch), note(commits, plan.done))
    if (plan.begun > plan.done)
      SparkLineShim.commits(spark, commits).get(plan.batch).map(_.nextBatchWatermarkMs).foreach {
        WatermarkNote(plan.begun, _).write(files, home)
      }
    else WatermarkNote.delete(files, home)
    operators.foreach { case (operator, partitions) =>
      // What the query has changed since is given up too.
      OperatorHeader.forgetAfter(new Path(new Path(home, "state"), operator.toString), hadoopConf, plan.batch + 1)
      val ids = snapshots(spark, home, operator, partitions)(plan.batch + 1)
      (0 until partitions).foreach { partition =>
        val id = StateStoreId(new Path(home, "state").toString, operator, partition)
        new MemorySnapshots(id.storeCheckpointLocation(), hadoopConf)
          .goOnFrom(plan.goesOnFrom, as = plan.batch + 1, ids.map(_(partition).head))
      }
    }
    files.delete(planPath(home))
  }

  private def noSnapshot(checkpoint: String): MullionException = MullionException.stateLost(
    s"There is no snapshot in $checkpoint to go back to. Start the query with a new checkpointLocation, and a new place " +
      "for what it puts out: it reads its sources from their start."
  )

  private def planPath(home: Path): Path = new Path(home, "mullion-recovery")

  /** What a recovery that was cut short was about to do; none if it had not noted it yet. */
  private def planned(files: CheckpointFileManager, home: Path): Option[Plan] = Option
    .when(files.exists(planPath(home)))(planPath(home))
    .flatMap { path =>
      new String(CheckpointFiles.read(files, path), UTF_8).linesIterator.toSeq match {
        case Seq(Format, PlanLine(batch, done, begun)) => Some(Plan(batch.toLong, done.toLong, begun.toLong))
        case _                                         => None
      }
    }

  private val PlanLine = """(\d+) (\d+) (\d+)""".r

  /** The newest snapshot that a query can go back to, of those up to the version that it would go on from.
    *
    * @param batch
    *   one that is noted as done
    */
  private[mullion] def newest(spark: SparkSession, home: Path, batch: Long, goesOnFrom: Long): Long = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val files = CheckpointFileManager.create(home, hadoopConf)
    val operators = inMemory(files, home, hadoopConf, batch)
    versionsOf(spark, files, home, operators, goesOnFrom).toSeq.sorted.reverse
      .find(isWhole(spark, home, operators, _))
      .getOrElse(throw noSnapshot(home.toUri.getPath))
  }

  /** Whether each partition's snapshot of a version can be read to its end. */
  private def isWhole(spark: SparkSession, home: Path, operators: Seq[(Long, Int)], version: Long): Boolean =
    operators.forall { case (operator, partitions) =>
      val ids = snapshots(spark, home, operator, partitions)(version)
      MemorySnapshots.areWhole(
        new Path(home, "state"),
        operator,
        partitions,
        spark.sessionState.newHadoopConf(),
        version,
        ids
      )
    }

  /** The versions of which all operators have a snapshot, and whose batches are in Spark's logs. */
  private def versionsOf(
      spark: SparkSession,
      files: CheckpointFileManager,
      home: Path,
      operators: Seq[(Long, Int)],
      goesOnFrom: Long
  ): Set[Long] = {
    val logs = Seq("offsets", "commits").map(new Path(home, _))
    operators
      .map { case (operator, partitions) => snapshots(spark, home, operator, partitions).keySet }
      .reduce(_.intersect(_))
      .filter(version => version <= goesOnFrom && logs.forall(log => files.exists(note(log, version - 1))))
  }

  /** The snapshots of an operator that can be read: their versions, with the partitions' ids if they have such. */
  def snapshots(
      spark: SparkSession,
      home: Path,
      operator: Long,
      partitions: Int
  ): Map[Long, Option[Array[Array[String]]]] = {
    val log = SparkLineShim.commits(spark, new Path(home, "commits"))
    val hadoopConf = spark.sessionState.newHadoopConf()
    MemorySnapshots.complete(
      new Path(home, "state"),
      operator,
      partitions,
      hadoopConf,
      version => log.get(version - 1).flatMap(_.stateUniqueIds).flatMap(_.get(operator))
    )
  }

  /** Our operators with state in memory, and how many partitions it has. Others would have to go back with them. */
  private[mullion] def inMemory(
      files: CheckpointFileManager,
      home: Path,
      hadoopConf: Configuration,
      batch: Long
  ): Seq[(Long, Int)] = {
    val root = new Path(home, "state")
    val operators = files.list(root).map(_.getPath.getName).filter(_.forall(_.isDigit)).map(_.toLong).sorted.toSeq
    val (ours, others) = operators.partition { id =>
      val operatorRoot = new Path(root, id.toString)
      val state = OperatorHeader.read(operatorRoot, hadoopConf).map(_.state) orElse
        StatefulHeader.read(operatorRoot, hadoopConf).map(_.state)
      state.contains(StateChoice.Memory.name)
    }
    val branched = ours.find(id => BranchState.all(new Path(root, id.toString), hadoopConf).nonEmpty)
    branched.foreach { id =>
      throw MullionException.unsupported(
        s"In $home operator $id has windows between functions, whose state in memory cannot go back with theirs. Start the " +
          "query with a new checkpointLocation, and a new place for what it puts out."
      )
    }
    if (ours.isEmpty)
      throw MullionException.invalid(
        s"No window in $home keeps its state in memory: start the query again, it goes on from where it was."
      )
    if (others.nonEmpty)
      throw MullionException.unsupported(
        s"In $home the state of operator ${ours.mkString(", ")} was in memory, and that of ${others.mkString(", ")} is in " +
          "another store, which cannot go back with it. Start the query with a new checkpointLocation, and a new place for " +
          s"what it puts out; ${MemorySnapshots.Every}=1 has such a query go on from where it was."
      )
    ours.map(id => id -> OperatorState.partitionsOf(root, id, hadoopConf, batch))
  }

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
