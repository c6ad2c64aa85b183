package org.apache.spark.sql.mullion

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, CommitLog, OffsetSeqLog}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state.StateStoreId
import org.apache.spark.sql.mullion.state.{MemorySnapshots, OperatorHeader}
import org.apache.spark.sql.mullion.stateful.{StatefulHeader, WindowPlace}

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
  * Numbers of batches are never used twice: sinks leave out what comes under a number that they have seen. A batch that
  * was begun and not done stays so, and does nothing when it is done again.
  *
  * The state is written last. Until then there is none for the query to start from, and this can be done once more.
  */
object Recovery {

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
    val offsets = new Path(home, "offsets")
    val commits = new Path(home, "commits")
    (
      new CommitLog(spark, commits.toString).getLatestBatchId(),
      new OffsetSeqLog(spark, offsets.toString).getLatestBatchId()
    ) match {
      case (Some(done), latest) =>
        // A recovery that was cut short may have left no note.
        val begun = Math.max(done, latest.getOrElse(done))
        val operators = inMemory(files, home, hadoopConf, done)
        val goesOnFrom = done + 1
        val versions = operators
          .map { case (operator, partitions) => snapshots(spark, home, operator, partitions).keySet }
          .reduce(_.intersect(_))
          .filter { version =>
            version <= goesOnFrom && Seq(offsets, commits).forall(log => files.exists(note(log, version - 1)))
          }
        val newest = versions.maxOption.getOrElse(
          throw MullionException.stateLost(
            s"There is no snapshot in $checkpoint to go back to. Start the query with a new checkpointLocation, and a new place " +
              "for what it puts out: it reads its sources from their start."
          )
        )
        if (newest == goesOnFrom) 0L
        else {
          val batch = newest - 1
          (Math.max(done - 1, 0L) to begun).foreach(b => copy(files, note(offsets, batch), note(offsets, b)))
          copy(files, note(commits, batch), note(commits, done))
          operators.foreach { case (operator, partitions) =>
            val ids = snapshots(spark, home, operator, partitions)(newest)
            (0 until partitions).foreach { partition =>
              val id = StateStoreId(new Path(home, "state").toString, operator, partition)
              new MemorySnapshots(id.storeCheckpointLocation(), hadoopConf)
                .goOnFrom(goesOnFrom, as = newest, ids.map(_(partition).head))
            }
          }
          begun - batch
        }
      // Nothing was done: the first batch is done from the start.
      case _ => 0L
    }
  }

  /** The snapshots of an operator that can be read: their versions, with the partitions' ids if they have such. */
  def snapshots(
      spark: SparkSession,
      home: Path,
      operator: Long,
      partitions: Int
  ): Map[Long, Option[Array[Array[String]]]] = {
    val log = new CommitLog(spark, new Path(home, "commits").toString)
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
  private def inMemory(
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
    val between = ours.find(id => WindowPlace.all(new Path(root, id.toString), hadoopConf).nonEmpty)
    between.foreach { id =>
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
    if (from != to) {
      val note = Using.resource(files.open(from))(_.readAllBytes())
      MemorySnapshots.replace(files, to) { out => out.write(note); out.close() }
    }
}
