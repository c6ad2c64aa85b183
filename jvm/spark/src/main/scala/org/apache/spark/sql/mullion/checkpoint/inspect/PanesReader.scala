package org.apache.spark.sql.mullion.checkpoint.inspect

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, NamedExpression, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.classic.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.mullion.checkpoint.evolve.{Regrouping, WrittenQuery}
import org.apache.spark.sql.mullion.checkpoint.layout.OperatorState
import org.apache.spark.sql.mullion.operator.engine.PaneCounts
import org.apache.spark.sql.mullion.operator.program.OperatorProgram
import org.apache.spark.sql.mullion.plan.build.TogetherBuilder
import org.apache.spark.sql.mullion.plan.{Shown, TogetherPlan, WindowStrategy, WindowedAggregate, WindowsTogether}
import org.apache.spark.sql.mullion.state.header.{DrainHeader, OperatorHeader, StateHeader}
import org.apache.spark.sql.types.{Metadata, StructField, StructType}
import org.apache.spark.util.SerializableConfiguration

import dev.mullion.MullionException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.spec.Setting

/** Reads the open panes of a checkpoint, as of its last committed batch. Spark's own state reader can interpret neither
  * the order of the records nor the accumulators.
  */
object PanesReader {

  def read(spark: SparkSession, checkpoint: String, operator: Int): DataFrame =
    read(spark, locate(spark, checkpoint, operator))

  /** An operator's state, and the program that wrote it.
    *
    * @param panes
    *   the query's own DataFrame, if SQL text cannot express its aggregates
    * @param window
    *   the name of a window between the stages of functions with state
    */
  private[mullion] def stateAndProgram(
      spark: SparkSession,
      checkpoint: String,
      operator: Int,
      panes: Option[DataFrame],
      window: Option[String]
  ): (OperatorState[OperatorHeader], OperatorProgram) = {
    val state =
      window.fold(locate(spark, checkpoint, operator))(StateReader.locateWindow(spark, checkpoint, operator, _))
    state -> panes.fold(resultOf(spark, state))(resultOf(_, checkpoint, state)).program
  }

  /** For a window between the stages of functions with state. */
  def readBranch(spark: SparkSession, checkpoint: String, operator: Int, window: String): DataFrame =
    read(spark, StateReader.locateWindow(spark, checkpoint, operator, window))

  private def read(spark: SparkSession, state: OperatorState[OperatorHeader]): DataFrame = spark.withActive {
    read(spark, state, resultOf(spark, state))
  }

  private def resultOf(spark: SparkSession, state: OperatorState[OperatorHeader]): Result = {
    def alone(one: StateHeader) = WrittenQuery.rebuilt(spark, one, WrittenQuery.inputOf(one)).queryExecution.analyzed
    val plan = (state.header, state.header.windows) match {
      case (drain: DrainHeader, _) => alone(drain.next)
      case (_, Seq((None, one)))   => alone(one)
      case (_, several)            =>
        // The windows share one DataFrame, of which each reads some columns.
        val schema = StructType(several.flatMap(window => WrittenQuery.inputOf(window._2)).distinct)
        val windows = several.map { case (name, header) =>
          name.getOrElse("") -> WrittenQuery.rebuilt(spark, header, schema)
        }
        TogetherBuilder.together(windows)
    }
    resultsIn(Regrouping.over(plan, state.header)).head
  }

  /** With the functions of the query's own DataFrame. */
  def readOf(panes: DataFrame, checkpoint: String, operator: Int): DataFrame = {
    val spark = panes.sparkSession
    spark.withActive {
      val state = locate(spark, checkpoint, operator)
      read(spark, state, resultOf(panes, checkpoint, state))
    }
  }

  private def resultOf(panes: DataFrame, checkpoint: String, state: OperatorState[OperatorHeader]): Result = {
    val plan = panes.queryExecution.analyzed
    val results = resultsIn(Regrouping.over(plan, state.header))
    if (results.isEmpty) throw MullionException.invalid(s"${Setting.Panes} is not a result of windowed(...).agg(...).")
    val result = results.find(r => state.header.differences(r.program.header).isEmpty).getOrElse(results.head)
    val differences = state.header.differences(result.program.header)
    if (differences.nonEmpty)
      throw MullionException.incompatibleState(
        s"The panes in $checkpoint are another query's: ${differences.mkString("; ")}. Pass the DataFrame that wrote them."
      )
    result
  }

  private val kind = OperatorState.Kind[OperatorHeader]("window", "windows", OperatorHeader.readAt, _.describe)

  private def locate(spark: SparkSession, checkpoint: String, operator: Int): OperatorState[OperatorHeader] =
    OperatorState.locate(spark, checkpoint, operator, kind)

  /** The programs of a DataFrame's windows. */
  private[mullion] def programsOf(panes: DataFrame): Seq[OperatorProgram] =
    programsIn(panes.queryExecution.analyzed)

  private[checkpoint] def programsIn(plan: LogicalPlan): Seq[OperatorProgram] = resultsIn(plan).map(_.program)

  /** The windows of a plan: the program of each, and the output for its open panes. */
  private def resultsIn(plan: LogicalPlan): Seq[Result] = plan.collect {
    case Project(columns, node: WindowedAggregate) =>
      Result(WindowStrategy.program(node), Shown.ofPanes(columns, node.pane, node.lateRow))
    case Project(columns, node: WindowsTogether) =>
      Result(TogetherPlan(node).program, Shown.ofPanes(columns, node.pane, node.lateRow))
  }

  /** @param columns
    *   over the output of `program`
    */
  private final case class Result(program: OperatorProgram, columns: Seq[NamedExpression])

  private def read(spark: SparkSession, state: OperatorState[OperatorHeader], result: Result): DataFrame = {
    val program = result.program
    val opener = state.opener(spark, program.families)
    val conf = spark.sparkContext.broadcast(new SerializableConfiguration(spark.sessionState.newHadoopConf()))
    val output: Seq[Attribute] = program.output
    val rows = spark.sparkContext.parallelize(0 until state.partitions, state.partitions).mapPartitions { partitions =>
      val project = UnsafeProjection.create(output, output)
      partitions.flatMap { partition =>
        opener.look(partition, conf.value.value) { opened =>
          val engine = program.engine(BatchClock.Inspection, opened, new PaneCounts)
          // Eager: the store closes afterwards.
          engine.openPanes().map(open => project(open.row).copy(): InternalRow).toVector
        }
      }
    }
    val panes =
      spark.internalCreateDataFrame(rows, StructType(output.map(a => StructField(a.name, a.dataType, a.nullable))))
    // By id: two may share a name here, such as aggregates that differ in their FILTER.
    val columnOf = output.map(_.exprId).zip(panes.queryExecution.analyzed.output).toMap
    val shown = result.columns.map { column =>
      val value = Shown.unalias(column).transform { case a: Attribute => columnOf(a.exprId) }
      Alias(value, column.name)(explicitMetadata = Some(Metadata.empty))
    }
    Dataset.ofRows(spark, Project(shown, panes.queryExecution.analyzed))
  }
}
