package org.apache.spark.sql.mullion.plan.build

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.execution.python.UserDefinedPythonFunction
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.expressions.columns.PaneColumns
import org.apache.spark.sql.mullion.plan.WindowedAggregate
import org.apache.spark.sql.mullion.plan.build.analysis.{CallText, WindowKeys}
import org.apache.spark.sql.mullion.pyfunction.branch.ProcessedRows
import org.apache.spark.sql.mullion.pyfunction.dataflow.{FileRanges, InputsProgram}
import org.apache.spark.sql.mullion.pyfunction.keyed.{FlowEntries, KeyedFunction, KeyedFunctionProgram, StatefulOptions}
import org.apache.spark.sql.mullion.query.Tick
import org.apache.spark.sql.mullion.shim.PythonFrames
import org.apache.spark.sql.types._

import dev.mullion.MullionException

/** Converts functions with state, and the windows between them, to a plan. */
object KeyedFunctionBuilder {

  /** The rows that a function produces for its window `target`, from 1. */
  def rows(spark: SparkSession, target: Int, schema: StructType): DataFrame = {
    val columns = schema.map(f => AttributeReference(f.name, f.dataType)())
    checkTypes(schema, "a window")
    Dataset.ofRows(spark, ProcessedRows(ProcessedRows.unplanned, target, columns))
  }

  /** The number of lines of a file that Python is certain to read as that many. */
  def flowLines(path: String, from: Long, delimiter: String, batchSize: Int, most: Int): Array[Long] =
    FileRanges.linesIn(path, from, delimiter, batchSize, most)

  /** The stateless steps of a dataflow, over the entries of its log: see [[FlowEntries]]. */
  def flowEntries(df: DataFrame, process: UserDefinedPythonFunction, schema: StructType, program: String): DataFrame = {
    val output = schema.map(f => AttributeReference(f.name, f.dataType)())
    val child = df.queryExecution.analyzed
    Dataset.ofRows(
      df.sparkSession,
      FlowEntries(child.output, new InputsProgram(program), PythonFrames.Code(process), output, child)
    )
  }

  def apply(df: DataFrame, options: StatefulOptions): DataFrame = {
    val spark = df.sparkSession
    if (!df.isStreaming)
      throw MullionException.unsupported(
        "Functions with state are for streams, and this DataFrame is a batch. Read it with spark.readStream."
      )
    checkTypes(df.schema, "the input")
    checkTypes(options.schema, "the output")
    val child = df.queryExecution.analyzed
    val input = child.output
    val windows = options.windows.map(w => w -> w.panes.queryExecution.analyzed)
    windows.foreach { case (window, plan) => checkWindow(window.name, plan) }

    val shards =
      if (options.shards.isEmpty) Seq(Alias(Literal(0), "shard")())
      else shardsOf(df, options.shards)
    val rows = Project(input ++ shards, child)
    val byWallClock = options.wallTimers || windows.exists(_._2.exists {
      case node: WindowedAggregate =>
        node.rules.onProcessingTime || node.idleAfter.isDefined || node.rows.exists(_.closesByWall)
      case _ => false
    })
    if (byWallClock && !SQLConf.get.getConf(SQLConf.STREAMING_NO_DATA_MICRO_BATCHES_ENABLED))
      throw MullionException.unsupported(
        s"${SQLConf.STREAMING_NO_DATA_MICRO_BATCHES_ENABLED.key} is false: then no batch runs without rows, and timers by the " +
          "wall clock would wait for the next row. Set it to true, its default."
      )
    // Windows between stages with early firings also fire by the wall clock while there are no rows.
    val ticks = !options.passing && (byWallClock || windows.exists(_._2.exists {
      case node: WindowedAggregate => node.rules.early.isDefined
      case _                       => false
    }))
    val distributed = if (ticks) Tick.beside(spark, rows) else rows
    val inDistributed = rows.output.zip(distributed.output).map { case (a, b) => a.exprId -> b }.toMap

    val program = KeyedFunctionProgram(
      options.process,
      options.callbacks,
      options.windows.map(_.name),
      options.windows.map(_.clock),
      if (options.shards.isEmpty) Nil else shards.map(s => CallText.sqlOf(s.child)),
      options.folds,
      options.begins,
      options.flow,
      options.keys
    )
    val node = KeyedFunction(
      input.map(a => inDistributed(a.exprId)),
      shards.map(s => inDistributed(s.exprId)),
      options.schema.map(f => AttributeReference(f.name, f.dataType)()),
      windows.map(_._2.output),
      program,
      distributed,
      windows.map(_._2)
    )
    // New column ids: Spark distinguishes two uses of one DataFrame by renaming the columns of projections.
    Dataset.ofRows(spark, Project(node.output.map(a => Alias(a, a.name)()), node))
  }

  private def shardsOf(df: DataFrame, columns: Seq[Column]): Seq[Alias] =
    df.select(columns: _*).queryExecution.analyzed match {
      case Project(expressions, _) =>
        expressions.zipWithIndex.map { case (e, i) =>
          val value = e match {
            case Alias(child, _) => child
            case other           => other
          }
          if (!value.deterministic)
            throw MullionException.invalid(
              s"shard_by has ${value.sql}, which returns different values for the same row: a repeated batch would use other " +
                "shards. Name columns of the input, or expressions that always return the same value."
            )
          WindowKeys.whyUnstable(e).foreach(throw _)
          Alias(WindowKeys.normalised(value, df.queryExecution.analyzed), s"shard$i")()
        }
      case other =>
        throw MullionException.invalid(s"shard_by must be columns of the input, and this is ${other.simpleString(5)}.")
    }

  private def checkTypes(schema: StructType, what: String): Unit =
    try PythonFrames.checkTypes(schema)
    catch {
      case e: Exception =>
        throw new MullionException(
          "UNSUPPORTED",
          s"The columns of $what (${schema.sql}) cannot go to Python and back as Arrow: ${e.getMessage} Cast or rename them.",
          Some(e)
        )
    }

  private def checkWindow(name: String, plan: LogicalPlan): Unit = {
    val windows = plan.collect { case node: WindowedAggregate => node }
    if (windows.length != 1 || !ProcessedRows.areIn(plan))
      throw MullionException.invalid(
        s"The window '$name' must be what one windowed(...).agg(...) makes of the rows that it is given; it has " +
          s"${windows.length} windows${if (ProcessedRows.areIn(plan)) "" else ", and other rows"}."
      )
    if (!plan.output.exists(c => c.name == "pane" && PaneColumns.isPane(c.dataType)))
      throw MullionException.invalid(
        s"The window '$name' gives the columns ${plan.output.map(_.name).mkString(", ")}: callbacks are called by 'pane', which " +
          "windowed(...).agg(...) gives. Keep it."
      )
    try PythonFrames.checkTypes(StructType(plan.output.map(a => StructField(a.name, a.dataType, a.nullable))))
    catch {
      case e: Exception =>
        throw MullionException.unsupported(
          s"The panes of the window '$name' cannot go to Python as Arrow: ${e.getMessage}"
        )
    }
  }
}
