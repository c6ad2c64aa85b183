package org.apache.spark.sql.mullion.checkpoint.savepoint

import scala.annotation.tailrec

import org.apache.hadoop.fs.Path

import org.apache.spark.SparkException
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.checkpoint.imports.SparkState
import org.apache.spark.sql.mullion.checkpoint.layout.{Commits, StateOperators}
import org.apache.spark.sql.mullion.operator.asof.AsOfHeader
import org.apache.spark.sql.mullion.pyfunction.keyed.KeyedFunctionHeader
import org.apache.spark.sql.mullion.query.note.{CheckpointFiles, RecoveryNote}
import org.apache.spark.sql.mullion.shim.{BuildInfo, SparkVersionShim}
import org.apache.spark.sql.mullion.state.header.OperatorHeader
import org.apache.spark.sql.mullion.state.{SavepointNote, StateSparkVersion}

import dev.mullion.MullionException

/** A checkpoint that is copied from another one, between two batches, with another number of partitions or another
  * format. A query that starts from it continues with the next batch.
  *
  * {{{
  *   batch         ..  15  16  17 (begun)        savepoint:  15  16
  *   offsets           *   *   *                             *   *     partitions: the new number
  *   commits           *   *                                     *     ids of versions: the new ones
  *   sources           *   *   *                             *   *
  *   state                 *                                     *     rewritten, see [[StateCopy]]
  * }}}
  *
  * Batch numbers stay, because sinks skip a number that they have seen. [[SavepointPlace]] documents the temporary
  * folder.
  */
object Savepoint {

  /** The options of a savepoint.
    *
    * @param partitions
    *   the new number of state partitions; unchanged by default
    * @param format
    *   of the checkpoint, 1 or 2: whether versions of state have ids; unchanged by default
    */
  final case class Asked(partitions: Option[Int], format: Option[Int])

  /** Fails if this Spark version cannot write state like that batch. */
  private[checkpoint] def requireLine(batch: Long): Unit =
    if (batch > 0 && !SparkVersionShim.beginsAnywhere)
      throw MullionException.unsupported(
        s"Spark ${BuildInfo.sparkLine} can write only the first version of a state. Write the savepoint on Spark " +
          s"4.2 or newer; with ${StateSparkVersion.Setting}=ranges in the session, a query on 4.1 starts from it."
      )

  /** Writes a savepoint. Returns the number of its last batch.
    *
    * @param panes
    *   the query's own DataFrame, if SQL text cannot express its aggregates; for Spark's state, the new query
    * @param was
    *   the DataFrame whose query wrote the checkpoint, if that is of Spark's own windows
    */
  def write(
      spark: SparkSession,
      checkpoint: String,
      to: String,
      asked: Asked,
      panes: Option[DataFrame],
      was: Option[DataFrame]
  ): Long =
    spark.withActive {
      val place = SavepointPlace(to, spark.sessionState.newHadoopConf())
      val states = CheckpointFiles.reading(checkpoint) {
        was.fold(withoutState(spark, checkpoint, asked).getOrElse {
          new OwnStates(spark, Source(spark, checkpoint, panes), asked)
        })(SparkStates(spark, checkpoint, asked, panes, _))
      }
      val logs = new SavepointLogs(spark, checkpoint, states.batch)
      place.fill { folder =>
        val ids =
          try new WritingJobs(spark.sparkContext).run(states.write(folder, logs.settings))
          catch { case e: SparkException => throw mullionError(e).getOrElse(e) }
        logs.write(folder, states.partitions, Option.when(states.format > 1)(ids))
        SavepointNote.write(spark, folder, states.batch)
      }
      states.batch
    }

  /** For a query without stateful operators that has committed a batch. */
  private def withoutState(spark: SparkSession, checkpoint: String, asked: Asked): Option[SavepointStates] = {
    val home = new Path(checkpoint)
    val files = CheckpointFileManager.create(home, spark.sessionState.newHadoopConf())
    if (files.exists(new Path(home, "state"))) None
    else
      Commits.of(spark, home).flatMap(_.getLatest()).map { case (batch, _) =>
        val noted = new SavepointLogs(spark, checkpoint, batch).settings.toMap.get(SQLConf.SHUFFLE_PARTITIONS.key)
        val had = noted.fold(spark.sessionState.conf.numShufflePartitions)(_.toInt)
        new NoStates(batch, asked.partitions.getOrElse(had))
      }
  }

  /** Mullion's error in a task, if that is the cause. */
  @tailrec
  private def mullionError(e: Throwable): Option[MullionException] = e match {
    case refused: MullionException => Some(refused)
    case other                     =>
      Option(other.getCause) match {
        case Some(cause) => mullionError(cause)
        case None        => None
      }
  }

  /** A checkpoint between two batches.
    *
    * @param batch
    *   the last committed one
    */
  private[checkpoint] final case class Source(checkpoint: String, batch: Long, operators: Seq[SavedOperator])

  private[checkpoint] object Source {
    def apply(spark: SparkSession, checkpoint: String, panes: Option[DataFrame]): Source = {
      val hadoopConf = spark.sessionState.newHadoopConf()
      val home = new Path(checkpoint)
      val files = CheckpointFileManager.create(home, hadoopConf)
      val ids = StateOperators.in(checkpoint, hadoopConf)
      if (RecoveryNote.isThere(files, home))
        throw MullionException.invalid(
          s"$checkpoint is to return to an earlier batch. Call recover(\"$checkpoint\"), and write the savepoint then."
        )
      val operators = ids.map(id => reader(spark, checkpoint, id.toInt, panes)).map(read => read())
      if (operators.isEmpty) throw MullionException.invalid(s"$checkpoint has no operator with state yet.")
      Source(checkpoint, operators.head.at.version - 1, operators)
    }

    /** Reads an operator; fails at once if it is not Mullion's. */
    private def reader(
        spark: SparkSession,
        checkpoint: String,
        id: Int,
        panes: Option[DataFrame]
    ): () => SavedOperator = {
      val hadoopConf = spark.sessionState.newHadoopConf()
      val root = new Path(new Path(checkpoint, "state"), id.toString)
      if (KeyedFunctionHeader.read(root, hadoopConf).isDefined) () => SavedFunction(spark, checkpoint, id, panes)
      else if (AsOfHeader.read(root, hadoopConf).isDefined) () => SavedAsOf(spark, checkpoint, id)
      else if (OperatorHeader.read(root, hadoopConf).isDefined) () => SavedWindow(spark, checkpoint, id, panes)
      else {
        val named = SparkState.nameOf(root, hadoopConf)
        if (named.exists(SparkState.isWindow))
          throw SparkState.needsBoth(s"Operator $id of $checkpoint is of Spark's own")
        throw MullionException.unsupported(
          s"Operator $id of $checkpoint is Spark's own (${named.getOrElse("of an unknown name")}). Savepoints are of queries " +
            "whose operators with state are all Mullion's. Start the changed query with a new checkpointLocation."
        )
      }
    }
  }
}

/** The state part of a savepoint. */
private[checkpoint] trait SavepointStates {

  /** The last batch of the savepoint. */
  def batch: Long

  /** The number of state partitions. */
  def partitions: Int

  /** The checkpoint format, 1 or 2: whether versions of state have ids. */
  def format: Int

  /** Writes it into the folder of a checkpoint.
    *
    * @param settings
    *   of the query, from Spark's log
    * @return
    *   the ids of versions, by operator and partition
    */
  def write(to: Path, settings: Seq[(String, String)]): Seq[(Long, Seq[Option[String]])]
}

/** Rewritten state of Mullion's operators. */
private final class OwnStates(spark: SparkSession, source: Savepoint.Source, asked: Savepoint.Asked)
    extends SavepointStates {
  override val batch: Long = source.batch
  override val partitions: Int = partitionsOf(source.operators.head)
  override val format: Int =
    asked.format.getOrElse(if (source.operators.exists(_.at.checkpointIds.isDefined)) 2 else 1)

  source.operators.foreach(of => of.require(source.checkpoint, partitionsOf(of)))

  Savepoint.requireLine(batch)

  override def write(to: Path, settings: Seq[(String, String)]): Seq[(Long, Seq[Option[String]])] =
    source.operators.map { of =>
      val state = NewState(new Path(to, "state"), of.at.operator, batch, partitionsOf(of), settings)
      of.at.operator -> of.write(spark, source.checkpoint, state)
    }

  private def partitionsOf(operator: SavedOperator): Int = asked.partitions.getOrElse(operator.at.partitions)
}

/** A query without state: only its position in its sources. */
private final class NoStates(
    override val batch: Long,
    override val partitions: Int
) extends SavepointStates {
  override def format: Int = 1

  override def write(to: Path, settings: Seq[(String, String)]): Seq[(Long, Seq[Option[String]])] = Nil
}
