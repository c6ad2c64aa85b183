package org.apache.spark.sql.mullion.checkpoint

import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, OffsetSeqLog}
import org.apache.spark.sql.execution.streaming.runtime.{StreamExecution, StreamingQueryWrapper}
import org.apache.spark.sql.execution.streaming.state.{StateStoreConf, StateStoreId, StateStoreProviderId}
import org.apache.spark.sql.mullion.query.CheckpointFiles
import org.apache.spark.sql.mullion.shim.SparkLineShim
import org.apache.spark.sql.mullion.state.{PartitionOpener, StateChoice}
import org.apache.spark.sql.mullion.state.store.MemoryStateStoreProvider
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.util.SerializableConfiguration

/** State in memory that outlives its query, as far as it can: written down where a query comes to its end, and made
  * again where it could not be.
  *
  * What is lost is made again by doing the batches since the newest snapshot once more, one by one, each as it was:
  * with its number, its rows and its watermark. So nothing of it need be published again. The notes of these batches
  * are put aside, and each is put back when it is its turn:
  *
  * {{{
  *   batch      ..  S  S+1  ..  N  N+1              ..  S  S+1
  *   offsets        *   *       *   *       ->          *   *        redo/  S+2 .. N+1, until N
  *   commits        *   *       *                       *
  *   state          *                                   *
  * }}}
  *
  * Cut short anywhere, it goes on from the newest snapshot that there is then.
  */
object LostState {

  /** Where notes are put aside, in a checkpoint. */
  private val Folder = "redo"
  private val Until = "until"

  /** Readies a checkpoint for doing batches again, and says how many: 0 where the query can go on as it is. */
  def begin(spark: SparkSession, checkpoint: String): Long = {
    val at = new Checkpoint(spark, checkpoint)
    at.commits.getLatestBatchId() match {
      case None         => 0L
      case Some(latest) =>
        // A batch begins when the one before it is done, whether or not its note is there still.
        val done = at.until.getOrElse((at.offsets.getLatestBatchId().map(_ - 1) ++ Some(latest)).max)
        val newest = Recovery.newest(spark, at.home, latest, goesOnFrom = done + 1)
        if (newest == done + 1 && at.until.isEmpty) 0L
        else {
          val begun = at.offsets.getLatestBatchId().fold(done)(Math.max(done, _))
          (newest to begun).foreach(at.putAside)
          if (at.until.isEmpty) at.write(new Path(at.redo, Until), done.toString.getBytes("UTF-8"))
          (begun to newest by -1).foreach(at.forget)
          done + 1 - newest
        }
    }
  }

  /** Puts back what the next batch read, so that the query will do it again; whether there was one. When there is none,
    * all is as if nothing had been lost.
    */
  def next(spark: SparkSession, checkpoint: String): Boolean = {
    val at = new Checkpoint(spark, checkpoint)
    at.until.exists { done =>
      val batch = at.commits.getLatestBatchId().fold(0L)(_ + 1)
      if (batch <= done) at.putBack(batch)
      else {
        // Of the batch that was begun and not done.
        at.aside.filter(_ > done).foreach(at.putBack)
        at.files.delete(new Path(at.redo, Until))
        at.files.delete(at.redo)
      }
      batch <= done
    }
  }

  /** Whether batches of a checkpoint were about to be done again. */
  def isBeingMade(files: CheckpointFileManager, home: Path): Boolean = files.exists(new Path(home, s"$Folder/$Until"))

  /** Writes a snapshot of what a query left in memory, if it has ended; whether all of it is written now. */
  def keep(query: StreamingQuery): Boolean = {
    val execution = query match {
      case wrapper: StreamingQueryWrapper => wrapper.streamingQuery
      case own: StreamExecution           => own
      case other => throw new IllegalArgumentException(s"$other is not a query of micro-batches")
    }
    val spark = execution.sparkSession.asInstanceOf[SparkSession]
    val at = new Checkpoint(spark, execution.resolvedCheckpointRoot)
    val root = new Path(execution.resolvedCheckpointRoot, "state").toString
    at.commits.getLatestBatchId().forall { done =>
      val ids = at.commits.get(done).flatMap(_.stateUniqueIds)
      try
        Recovery.inMemory(at.files, at.home, at.hadoopConf, done).forall { case (operator, partitions) =>
          val hadoopConf = new SerializableConfiguration(at.hadoopConf)
          val conf = new StateStoreConf(PartitionOpener.confOf(StateChoice.Memory, spark.sessionState.conf))
          val (runId, version, idOf) = (execution.runId, done + 1, ids.flatMap(_.get(operator)))
          val kept = spark.sparkContext.parallelize(0 until partitions, partitions).map { partition =>
            val id = StateStoreProviderId(StateStoreId(root, operator, partition), runId)
            // Where a task runs in another executor than the one that has the state, it is made again.
            Try(MemoryStateStoreProvider.keep(id, version, idOf.map(_(partition).head), conf, hadoopConf.value))
              .getOrElse(false)
          }
          kept.collect().forall(identity)
        }
      // What could not be written down is made again.
      catch { case NonFatal(_) => false }
      // Who looks for a store makes it one that is in use.
      finally spark.streams.stateStoreCoordinator.deactivateInstances(execution.runId)
    }
  }

  private final class Checkpoint(spark: SparkSession, checkpoint: String) {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val home: Path = {
      val path = new Path(checkpoint)
      path.getFileSystem(hadoopConf).makeQualified(path)
    }
    val redo = new Path(home, Folder)
    val files: CheckpointFileManager = CheckpointFileManager.create(home, hadoopConf)
    private val (readTo, doneTo) = (new Path(home, "offsets"), new Path(home, "commits"))
    lazy val commits = SparkLineShim.commits(spark, doneTo)
    lazy val offsets = new OffsetSeqLog(spark, readTo.toString)

    /** The last batch that was done when the state was found lost. */
    def until: Option[Long] = {
      val note = new Path(redo, Until)
      Option.when(files.exists(note))(new String(CheckpointFiles.read(files, note), "UTF-8").toLong)
    }

    def aside: Seq[Long] = files.list(redo).toSeq.map(_.getPath.getName).flatMap(_.toLongOption).sorted

    def putAside(batch: Long): Unit = {
      val (note, there) = (new Path(readTo, batch.toString), new Path(redo, batch.toString))
      if (!files.exists(there)) write(there, CheckpointFiles.read(files, note))
    }

    def putBack(batch: Long): Unit = {
      val note = new Path(readTo, batch.toString)
      if (!files.exists(note)) write(note, CheckpointFiles.read(files, new Path(redo, batch.toString)))
    }

    def forget(batch: Long): Unit = Seq(doneTo, readTo).foreach(log => files.delete(new Path(log, batch.toString)))

    def write(path: Path, says: Array[Byte]): Unit = CheckpointFiles.write(files, path, says)
  }
}
