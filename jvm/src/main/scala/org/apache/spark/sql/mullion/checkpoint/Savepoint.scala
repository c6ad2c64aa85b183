package org.apache.spark.sql.mullion.checkpoint

import scala.annotation.tailrec

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.SparkException
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, CommitLog}
import org.apache.spark.sql.mullion.exec.programs.OperatorProgram
import org.apache.spark.sql.mullion.python.StatefulHeader
import org.apache.spark.sql.mullion.query.CheckpointFiles
import org.apache.spark.sql.mullion.shim.{BuildInfo, SparkLineShim}
import org.apache.spark.sql.mullion.state.{SavepointNote, StateChoice, StateLine}
import org.apache.spark.sql.mullion.state.header.{DrainHeader, OperatorHeader}

import dev.mullion.MullionException

/** A checkpoint that is made of another one, as it stands between two batches: with another number of partitions,
  * another store, or another format. A query that starts from it goes on with the next batch.
  *
  * {{{
  *   batch         ..  15  16  17 (begun)        savepoint:  15  16
  *   offsets           *   *   *                             *   *     partitions: what is asked for
  *   commits           *   *                                     *     ids of versions: the new ones
  *   sources           *   *   *                             *   *
  *   state                 *                                     *     written anew, see [[StateCopy]]
  * }}}
  *
  * Numbers of batches stay, for sinks leave out a batch whose number they have seen. Where it is written until it is
  * whole, [[SavepointPlace]] says.
  */
object Savepoint {

  /** What is asked.
    *
    * @param partitions
    *   how many state is to have, or as many as it has
    * @param state
    *   the store that it is to be in, or the one that it is in
    * @param format
    *   of the checkpoint, 1 or 2: whether versions of state have ids; or the one that it has
    */
  final case class Asked(partitions: Option[Int], state: Option[StateChoice], format: Option[Int]) {

    /** The format that the checkpoint is to have, if state is to be in `choices` and it had `had`. */
    private[checkpoint] def formatOf(choices: Seq[StateChoice], had: Int): Int = {
      val is = format.getOrElse(if (state.contains(StateChoice.Hdfs)) 1 else had)
      if (is > 1 && choices.contains(StateChoice.Hdfs))
        throw MullionException.unsupported(
          "state='hdfs' and checkpoint_format=2: Spark's HDFS-backed store gives its versions no ids, which that format of " +
            "checkpoints has. Leave checkpoint_format out, or say state='rocksdb'."
        )
      is
    }
  }

  /** Fails where this line of Spark cannot write state as that batch would have left it. */
  private[checkpoint] def requireLine(batch: Long): Unit =
    if (batch > 0 && !SparkLineShim.beginsAnywhere)
      throw MullionException.unsupported(
        s"Spark ${BuildInfo.sparkLine} writes no state but the first version of one. Write the savepoint on Spark " +
          s"4.2 or newer; with ${StateLine.Setting}=ranges in the session, a query on 4.1 starts from it."
      )

  /** Writes a savepoint, and gives the number of the last batch in it.
    *
    * @param panes
    *   the query's own DataFrame, where its aggregates have no text; where state is Spark's, the query that it is for
    * @param was
    *   the DataFrame whose query wrote the checkpoint, where that is of Spark's own windows
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
        was.fold[SavepointStates](new OwnStates(spark, Source(spark, checkpoint, panes), asked))(
          SparkStates(spark, checkpoint, asked, panes, _)
        )
      }
      val logs = new SavepointLogs(spark, checkpoint, states.batch)
      place.fill { folder =>
        val ids =
          try new WritingJobs(spark.sparkContext).run(states.write(folder, logs.settings))
          catch { case e: SparkException => throw ours(e).getOrElse(e) }
        logs.write(folder, states.partitions, Option.when(states.format > 1)(ids))
        SavepointNote.write(spark, folder, states.batch)
      }
      states.batch
    }

  /** What a task refused, if it was one of ours that did. */
  @tailrec
  private def ours(e: Throwable): Option[MullionException] = e match {
    case refused: MullionException => Some(refused)
    case other                     =>
      Option(other.getCause) match {
        case Some(cause) => ours(cause)
        case None        => None
      }
  }

  /** One of our operators.
    *
    * @param program
    *   what it does
    */
  private[checkpoint] final case class Operator(state: OperatorState[OperatorHeader], program: OperatorProgram)

  /** A checkpoint between two batches.
    *
    * @param batch
    *   the last one that is done
    */
  private[checkpoint] final case class Source(checkpoint: String, batch: Long, operators: Seq[Operator])

  private[checkpoint] object Source {
    def apply(spark: SparkSession, checkpoint: String, panes: Option[DataFrame]): Source = {
      val hadoopConf = spark.sessionState.newHadoopConf()
      val home = new Path(checkpoint)
      val files = CheckpointFileManager.create(home, hadoopConf)
      val ids = StateOperators.in(checkpoint, hadoopConf)
      if (LostState.isBeingMade(files, home) || files.exists(new Path(home, "mullion-recovery")))
        throw MullionException.invalid(
          s"$checkpoint is about to be taken back to a snapshot. Call mullion.recover(\"$checkpoint\") or start its program, " +
            "and write the savepoint then."
        )
      ids.foreach(requireWindow(checkpoint, _, hadoopConf))
      val found = ids.map { id =>
        val (state, program) = PanesReader.found(spark, checkpoint, id.toInt, panes, window = None)
        requireFormat(state, program)
        Operator(state, program)
      }
      if (found.isEmpty) throw MullionException.invalid(s"$checkpoint has no operator with state yet.")
      val version = found.map(_.state.version).min
      Source(checkpoint, version - 1, found.map(of => of.copy(state = at(spark, home, of.state, version))))
    }

    private def requireWindow(checkpoint: String, id: Long, hadoopConf: Configuration): Unit = {
      val root = new Path(new Path(checkpoint, "state"), id.toString)
      if (OperatorHeader.read(root, hadoopConf).isEmpty) {
        val named = SparkState.nameOf(root, hadoopConf)
        if (named.exists(SparkState.isWindow))
          throw SparkState.needsBoth(s"Operator $id of $checkpoint is of Spark's own")
        val what =
          if (StatefulHeader.read(root, hadoopConf).isDefined)
            "a function with state, as programs of Turbine, Faust and Bytewax have"
          else s"Spark's own (${named.getOrElse("of an unknown name")})"
        throw MullionException.unsupported(
          s"Operator $id of $checkpoint is $what. Savepoints are of queries whose operators with state are all windows of " +
            "Mullion's. Start the changed query with a new checkpointLocation."
        )
      }
    }

    private def requireFormat(state: OperatorState[OperatorHeader], program: OperatorProgram): Unit = {
      val is = program.header.windows.map { case (name, header) => name -> header.format }.toMap
      state.header.windows.find { case (name, header) => is.get(name).exists(_ != header.format) }.foreach {
        case (name, header) =>
          throw MullionException.incompatibleState(
            s"State format of ${header.describe} in ${state.root} was [${header.format}] and is now [${is(name)}]. Nothing was " +
              "written. Let the query end its panes with the version of Mullion that wrote them."
          )
      }
    }

    /** State in memory may be older than that of other operators, which then goes back with it. */
    private def at(
        spark: SparkSession,
        home: Path,
        state: OperatorState[OperatorHeader],
        version: Long
    ): OperatorState[OperatorHeader] = {
      val hadoopConf = spark.sessionState.newHadoopConf()
      def header = OperatorHeader.readAt(new Path(state.root, state.operator.toString), hadoopConf, version)
      if (state.version == version) state
      else if (state.header.state == StateChoice.Memory.name)
        Recovery.snapshots(spark, home, state.operator, state.partitions).get(version) match {
          case Some(ids) => state.copy(version = version, checkpointIds = ids, header = header.getOrElse(state.header))
          case None      =>
            throw MullionException.stateLost(
              s"There is no snapshot of all operators in $home of one batch: stop the query."
            )
        }
      else {
        val log = new CommitLog(spark, new Path(home, "commits").toString)
        val ids = log.get(version - 1).flatMap(_.stateUniqueIds).flatMap(_.get(state.operator))
        state.copy(version = version, checkpointIds = ids, header = header.getOrElse(state.header))
      }
    }
  }
}

/** What a savepoint is to have in the place of state. */
private[checkpoint] trait SavepointStates {

  /** The last batch that is in it. */
  def batch: Long

  /** How many partitions it is to have. */
  def partitions: Int

  /** Of the checkpoint, 1 or 2: whether versions of state have ids. */
  def format: Int

  /** Writes it into the folder of a checkpoint.
    *
    * @param settings
    *   of the query, as Spark has noted them
    * @return
    *   the ids of versions, by operators and their partitions
    */
  def write(to: Path, settings: Seq[(String, String)]): Seq[(Long, Seq[Option[String]])]
}

/** State of our operators, written anew. */
private final class OwnStates(spark: SparkSession, source: Savepoint.Source, asked: Savepoint.Asked)
    extends SavepointStates {
  import Savepoint.Operator

  private val choices = source.operators.map(of => asked.state.getOrElse(of.program.state))

  override val batch: Long = source.batch
  override val partitions: Int = asked.partitions.getOrElse(source.operators.head.state.partitions)
  override val format: Int =
    asked.formatOf(choices, if (source.operators.exists(_.state.checkpointIds.isDefined)) 2 else 1)

  source.operators.zip(choices).map { case (of, choice) => of.state.header -> choice }.foreach {
    case (drain: DrainHeader, StateChoice.Hdfs) =>
      throw MullionException.unsupported(
        s"state='hdfs' for a window that still drains (${drain.draining.describe}): Spark's HDFS store has no place for its " +
          "records beside those of the new one. Write the savepoint once the change is over and the query has started again."
      )
    case _ =>
  }

  Savepoint.requireLine(batch)

  override def write(to: Path, settings: Seq[(String, String)]): Seq[(Long, Seq[Option[String]])] =
    source.operators.zip(choices).map { case (of, choice) => of.state.operator -> state(of, choice, to, settings) }

  /** Writes an operator's state; the ids of the new version, by partition. */
  private def state(
      of: Operator,
      choice: StateChoice,
      to: Path,
      settings: Seq[(String, String)]
  ): Seq[Option[String]] = {
    val copy = new StateCopy(spark, source.checkpoint, of.state, of.program, choice)
    val at = NewState(to, of.state.operator, batch, asked.partitions.getOrElse(of.state.partitions), format, settings)
    at.write(spark, copy.to, of.state.header.withOwnPlaces)(copy.write(_, at.partitions))
  }
}
