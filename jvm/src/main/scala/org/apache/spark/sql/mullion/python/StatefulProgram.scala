package org.apache.spark.sql.mullion.python

import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.classic.{DataFrame => ClassicDataFrame}
import org.apache.spark.sql.execution.python.UserDefinedPythonFunction
import org.apache.spark.sql.mullion.python.flows.FlowProgram
import org.apache.spark.sql.mullion.python.folds.FoldProgram
import org.apache.spark.sql.mullion.shim.{Classic, PythonFrames}
import org.apache.spark.sql.types.StructType

/** What is asked of functions with state, apart from where in a plan they stand.
  *
  * @param shards
  *   what rows are distributed by, as SQL
  * @param windows
  *   the names of the windows between, in their order
  * @param clocks
  *   what the event clock of each is called, if it shares one with others
  * @param folds
  *   what is done here of what `process` would do
  * @param begins
  *   whether `process` is called in the first partition until it has set a timer by the wall clock there
  * @param flow
  *   a window's step of a dataflow that is run here before `process`
  * @param keys
  *   what the keys of their records say of where these lie
  */
final case class StatefulProgram(
    process: PythonFrames.Code,
    callbacks: Option[PythonFrames.Code],
    windows: Seq[String],
    clocks: Seq[Option[String]],
    shards: Seq[String],
    folds: Option[FoldProgram] = None,
    begins: Boolean = false,
    flow: Option[FlowProgram] = None,
    keys: Option[RecordKeys] = None
) {
  def describe: String = {
    val by = if (shards.isEmpty) "in one shard" else shards.mkString("by [", ", ", "]")
    val between = if (windows.isEmpty) Nil else Seq(windows.mkString("windows [", ", ", "]"))
    val functions = process.name +: (between ++ callbacks.map(_.name))
    s"${functions.mkString(" - ")}, $by"
  }

  def header: StatefulHeader = StatefulHeader(StatefulHeader.currentFormat, shards.toList)
}

object StatefulProgram {
  object OfFlow {
    def unapply(program: StatefulProgram): Option[FlowProgram] = program.flow
  }

  object OfFolds {
    def unapply(program: StatefulProgram): Option[FoldProgram] = program.folds
  }
}

/** The same with its columns.
  *
  * @param id
  *   tells these stages from others in one task
  * @param panes
  *   of each window
  */
final case class StatefulStages(
    id: String,
    program: StatefulProgram,
    input: Seq[Attribute],
    shards: Seq[Attribute],
    output: Seq[Attribute],
    panes: Seq[Seq[Attribute]]
)

/** What is asked, as Python says it: one thing after another. */
final case class StatefulOptions(
    process: PythonFrames.Code,
    schema: StructType,
    callbacks: Option[PythonFrames.Code] = None,
    windows: Seq[StatefulOptions.Window] = Nil,
    shards: Seq[Column] = Nil,
    wallTimers: Boolean = false,
    passing: Boolean = false,
    folds: Option[FoldProgram] = None,
    begins: Boolean = false,
    flow: Option[FlowProgram] = None,
    keys: Option[RecordKeys] = None
) {
  def withCallbacks(udf: UserDefinedPythonFunction): StatefulOptions = copy(callbacks = Some(PythonFrames.Code(udf)))

  /** @param clock
    *   what its event clock is called, if it shares one; empty for one of its own
    */
  def withWindow(name: String, panes: DataFrame, clock: String): StatefulOptions =
    copy(windows = windows :+ StatefulOptions.Window(name, Classic.frame(panes), Option.when(clock.nonEmpty)(clock)))

  def withShards(columns: Array[Column]): StatefulOptions = copy(shards = columns.toSeq)

  def withWallTimers(): StatefulOptions = copy(wallTimers = true)

  /** Of a query that never starts again, so that nothing falls due while it is down. */
  def withPassing(): StatefulOptions = copy(passing = true)

  /** Has `process` called in the first partition until it has set a timer by the wall clock there. */
  def withBegins(): StatefulOptions = copy(begins = true)

  /** Has agents that have been read run here: see `FoldProgram`. */
  def withFolds(json: String): StatefulOptions = copy(folds = Some(new FoldProgram(json)))

  /** Has a window's step of a dataflow run here: see `FlowProgram`. */
  def withFlow(json: String): StatefulOptions = copy(flow = Some(FlowProgram(json)))

  /** Says where records lie: see `RecordKeys`. */
  def withKeys(json: String): StatefulOptions = copy(keys = Some(RecordKeys(json)))
}

object StatefulOptions {
  final case class Window(name: String, panes: ClassicDataFrame, clock: Option[String])

  def apply(process: UserDefinedPythonFunction, schema: StructType): StatefulOptions =
    StatefulOptions(PythonFrames.Code(process), schema)
}
