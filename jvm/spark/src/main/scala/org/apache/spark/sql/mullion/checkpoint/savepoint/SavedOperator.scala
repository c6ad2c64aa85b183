package org.apache.spark.sql.mullion.checkpoint.savepoint

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.mullion.checkpoint.inspect.{PanesReader, StateReader}
import org.apache.spark.sql.mullion.checkpoint.layout.OperatorState
import org.apache.spark.sql.mullion.operator.program.OperatorProgram
import org.apache.spark.sql.mullion.pyfunction.branch.BranchState
import org.apache.spark.sql.mullion.pyfunction.keyed.{KeyedFunctionExec, KeyedFunctionHeader, RecordKeys}
import org.apache.spark.sql.mullion.pyfunction.state.{KeyedState, OneShard, ShardPlaces}
import org.apache.spark.sql.mullion.state.header.OperatorHeader

import dev.mullion.MullionException

/** An operator of Mullion in a savepoint. */
private[checkpoint] trait SavedOperator {

  /** Its state in the checkpoint. */
  def at: OperatorState[_]

  /** Fails if it cannot have this number of partitions. */
  def require(checkpoint: String, partitions: Int): Unit

  /** Writes its state. Returns the ids of the new version, by partition. */
  def write(spark: SparkSession, checkpoint: String, to: NewState): Seq[Option[String]]
}

/** A window, or several in one query. */
private[checkpoint] final case class SavedWindow(at: OperatorState[OperatorHeader], program: OperatorProgram)
    extends SavedOperator {
  override def require(checkpoint: String, partitions: Int): Unit = ()

  override def write(
      spark: SparkSession,
      checkpoint: String,
      to: NewState
  ): Seq[Option[String]] = write(spark, checkpoint, to, StateCopy.ByKey)

  def write(
      spark: SparkSession,
      checkpoint: String,
      to: NewState,
      placed: StateCopy.Placed
  ): Seq[Option[String]] = {
    val copy = new StateCopy(spark, checkpoint, at, program, placed)
    to.write(spark, copy.to, at.header.withOwnPlaces)(copy.write(_, to.partitions))
  }
}

private[checkpoint] object SavedWindow {

  /** @param window
    *   the name of a window between functions
    */
  def apply(
      spark: SparkSession,
      checkpoint: String,
      operator: Int,
      panes: Option[DataFrame],
      window: Option[String] = None
  ): SavedWindow = {
    val (state, program) = PanesReader.stateAndProgram(spark, checkpoint, operator, panes, window)
    val current = program.header.windows.toMap
    state.header.windows.find { case (name, header) => current.get(name).exists(_.readAs != header.readAs) }.foreach {
      case (name, header) =>
        throw MullionException.incompatibleState(
          s"State format of ${header.describe} in ${state.root} was [${header.format}] and is now [${current(name).format}]. Nothing was " +
            "written. Let the query close its panes with the version of Mullion that wrote them."
        )
    }
    SavedWindow(state, program)
  }
}

/** A function with state, with the windows between its stages.
  *
  * @param keys
  *   the shard information in the keys of its records
  * @param windows
  *   with the place of each
  */
private[checkpoint] final case class SavedFunction(
    at: OperatorState[KeyedFunctionHeader],
    keys: Option[RecordKeys],
    windows: Seq[(BranchState, SavedWindow)]
) extends SavedOperator {
  private val isOneShard = at.header.shards.isEmpty

  private def places: Option[ShardPlaces] = if (isOneShard) Some(OneShard) else keys.map(_.places)

  override def require(checkpoint: String, partitions: Int): Unit = {
    val what = s"Operator ${at.operator} of $checkpoint is a function with state"
    if (at.header.format != KeyedFunctionHeader.currentFormat)
      throw MullionException.incompatibleState(
        s"$what, whose state format is [${at.header.format}]; this version of Mullion writes " +
          s"[${KeyedFunctionHeader.currentFormat}]. Nothing was written. Run its program once with this version first."
      )
    val moves = partitions != at.partitions
    if (moves && places.isEmpty)
      throw MullionException.unsupported(
        s"$what by ${at.header.shards.mkString(", ")}, and its records do not say of which rows they are: a Turbine " +
          "subscription with a partition_key has one state for all keys of a task. So it is not known where they would " +
          s"belong in $partitions partitions. Leave partitions out, which keeps its ${at.partitions}. If it is of a Faust or " +
          "Bytewax program that a version before this one ran, run it once with this version first."
      )
    if (moves && !isOneShard && windows.nonEmpty)
      throw MullionException.unsupported(
        s"$what by ${at.header.shards.mkString(", ")}, with windows (${windows.map(_._1.name).mkString(", ")}) whose panes " +
          s"it has put into their partitions. Leave partitions out, which keeps its ${at.partitions}."
      )
  }

  override def write(
      spark: SparkSession,
      checkpoint: String,
      to: NewState
  ): Seq[Option[String]] = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val moves = to.partitions != at.partitions
    val copy = new FunctionCopy(spark, checkpoint, at, if (moves) places else None)
    val ids = to.write(spark, KeyedFunctionExec.operatorName, KeyedState.families)(
      copy.write(_, to.partitions)
    )
    KeyedFunctionHeader.write(to.root, hadoopConf, at.header)
    keys.foreach(RecordKeys.write(to.root, hadoopConf, _))
    val placed = if (moves) StateCopy.ByShard(Seq(Literal(OneShard.home.get))) else StateCopy.Stay
    windows.foreach { case (branch, window) =>
      BranchState.write(to.root, hadoopConf, branch.copy(partitions = to.partitions))
      val folder = BranchState.folderOf(to.root, branch.name)
      val state = to.copy(to = folder, operator = branch.number, batch = window.at.version - 1)
      window.write(spark, checkpoint, state, placed)
    }
    ids
  }
}

private[checkpoint] object SavedFunction {
  def apply(spark: SparkSession, checkpoint: String, operator: Int, panes: Option[DataFrame]): SavedFunction = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val state = OperatorState.locate(spark, checkpoint, operator, StateReader.kind)
    val root = new Path(state.root, state.operator.toString)
    // An entry of an uncommitted batch has no state yet.
    val branches = BranchState.all(root, hadoopConf).filter(_.versionAfter(state.version - 1) > 0)
    val windows = branches.map(of => of -> SavedWindow(spark, checkpoint, operator, panes, Some(of.name)))
    SavedFunction(state, RecordKeys.read(root, hadoopConf), windows)
  }
}
