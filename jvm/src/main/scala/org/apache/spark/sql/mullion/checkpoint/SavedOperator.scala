package org.apache.spark.sql.mullion.checkpoint

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.mullion.exec.programs.OperatorProgram
import org.apache.spark.sql.mullion.python.{BranchState, RecordKeys, StatefulFunctionExec, StatefulHeader}
import org.apache.spark.sql.mullion.python.state.{KeyedState, OneShard, ShardPlaces}
import org.apache.spark.sql.mullion.state.header.OperatorHeader

import dev.mullion.MullionException

/** An operator of ours that a savepoint is made of. */
private[checkpoint] sealed trait SavedOperator {

  /** Where its state is. */
  def at: OperatorState[_]

  /** Fails if it cannot have so many partitions. */
  def require(checkpoint: String, partitions: Int): Unit

  /** Writes its state; the ids of the new version, by partition. */
  def write(spark: SparkSession, checkpoint: String, to: NewState): Seq[Option[String]]
}

/** A window, or several together. */
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
    *   which one, of windows between functions
    */
  def apply(
      spark: SparkSession,
      checkpoint: String,
      operator: Int,
      panes: Option[DataFrame],
      window: Option[String] = None
  ): SavedWindow = {
    val (state, program) = PanesReader.found(spark, checkpoint, operator, panes, window)
    val is = program.header.windows.toMap
    state.header.windows.find { case (name, header) => is.get(name).exists(_.readAs != header.readAs) }.foreach {
      case (name, header) =>
        throw MullionException.incompatibleState(
          s"State format of ${header.describe} in ${state.root} was [${header.format}] and is now [${is(name).format}]. Nothing was " +
            "written. Let the query end its panes with the version of Mullion that wrote them."
        )
    }
    SavedWindow(state, program)
  }
}

/** A function with state, with the windows between its stages.
  *
  * @param keys
  *   what the keys of its records say of where these lie
  * @param windows
  *   with where each of them is
  */
private[checkpoint] final case class SavedFunction(
    at: OperatorState[StatefulHeader],
    keys: Option[RecordKeys],
    windows: Seq[(BranchState, SavedWindow)]
) extends SavedOperator {
  private val isOneShard = at.header.shards.isEmpty

  private def places: Option[ShardPlaces] = if (isOneShard) Some(OneShard) else keys.map(_.places)

  override def require(checkpoint: String, partitions: Int): Unit = {
    val what = s"Operator ${at.operator} of $checkpoint is a function with state"
    if (at.header.format != StatefulHeader.currentFormat)
      throw MullionException.incompatibleState(
        s"$what, whose state format is [${at.header.format}]; this version of Mullion writes " +
          s"[${StatefulHeader.currentFormat}]. Nothing was written. Run its program once with this version first."
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
    val ids = to.write(spark, StatefulFunctionExec.operatorName, KeyedState.families)(
      copy.write(_, to.partitions)
    )
    StatefulHeader.write(to.root, hadoopConf, at.header)
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
    // One that was noted for a batch which has not been committed has nothing yet.
    val branches = BranchState.all(root, hadoopConf).filter(_.versionAfter(state.version - 1) > 0)
    val windows = branches.map(of => of -> SavedWindow(spark, checkpoint, operator, panes, Some(of.name)))
    SavedFunction(state, RecordKeys.read(root, hadoopConf), windows)
  }
}
