package org.apache.spark.sql.mullion.pyfunction.keyed

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.classic.{DataFrame => ClassicDataFrame}
import org.apache.spark.sql.execution.python.UserDefinedPythonFunction
import org.apache.spark.sql.mullion.pyfunction.agents.FoldProgram
import org.apache.spark.sql.mullion.pyfunction.dataflow.FlowProgram
import org.apache.spark.sql.mullion.shim.{Classic, PythonFrames}
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.{Column, DataFrame}

import dev.mullion.MullionException

/** The options of functions with state, independent of their place in a plan.
  *
  * @param shards
  *   the distribution keys as SQL
  * @param windows
  *   the names of the windows in between, in order
  * @param clocks
  *   the name of each one's event clock, if it shares one with others
  * @param folds
  *   the part of `process` that runs in the JVM
  * @param begins
  *   whether `process` is called in the first partition until it has set a timer by the wall clock there
  * @param flow
  *   a window's step of a dataflow that runs in the JVM before `process`
  * @param keys
  *   the encoding of shards in the keys of their records
  */
final case class KeyedFunctionProgram(
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

  def header: KeyedFunctionHeader = KeyedFunctionHeader(KeyedFunctionHeader.currentFormat, shards.toList)
}

object KeyedFunctionProgram {
  object OfFlow {
    def unapply(program: KeyedFunctionProgram): Option[FlowProgram] = program.flow
  }

  object OfFolds {
    def unapply(program: KeyedFunctionProgram): Option[FoldProgram] = program.folds
  }
}

/** The same with its columns.
  *
  * @param id
  *   identifies these stages in a task
  * @param panes
  *   of each window
  */
final case class KeyedFunctionStages(
    id: String,
    program: KeyedFunctionProgram,
    input: Seq[Attribute],
    shards: Seq[Attribute],
    output: Seq[Attribute],
    panes: Seq[Seq[Attribute]]
)

/** The options, as set by Python one by one. */
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
    *   the name of its event clock, if it shares one; else empty
    */
  def withWindow(name: String, panes: DataFrame, clock: String): StatefulOptions =
    copy(windows = windows :+ StatefulOptions.Window(name, Classic.frame(panes), Option.when(clock.nonEmpty)(clock)))

  def withShards(columns: Array[Column]): StatefulOptions = copy(shards = columns.toSeq)

  def withWallTimers(): StatefulOptions = copy(wallTimers = true)

  /** For a query that never restarts, so that nothing falls due during a downtime. */
  def withPassing(): StatefulOptions = copy(passing = true)

  /** Calls `process` in the first partition until it has set a timer by the wall clock there. */
  def withBegins(): StatefulOptions = copy(begins = true)

  /** Runs translated agents in the JVM: see `FoldProgram`. */
  def withFolds(json: String): StatefulOptions = copy(folds = Some(new FoldProgram(json)))

  /** Runs a window's step of a dataflow in the JVM: see `FlowProgram`. */
  def withFlow(json: String): StatefulOptions = copy(flow = Some(FlowProgram(json)))

  /** Sets the encoding of shards: see `RecordKeys`. */
  def withKeys(json: String): StatefulOptions = copy(keys = Some(RecordKeys(json)))
}

object StatefulOptions {
  final case class Window(name: String, panes: ClassicDataFrame, clock: Option[String])

  def apply(process: UserDefinedPythonFunction, schema: StructType): StatefulOptions =
    StatefulOptions(PythonFrames.Code(process), schema)

  /** @param schema
    *   of the output, as JSON
    */
  def apply(process: PythonFrames.Code, schema: String, shards: Seq[Column]): StatefulOptions =
    StatefulOptions(process, schemaOf(schema), shards = shards)

  def schemaOf(json: String): StructType = DataType.fromJson(json) match {
    case struct: StructType => struct
    case other              => throw MullionException.invalid(s"${other.sql} is not a schema of rows.")
  }
}
