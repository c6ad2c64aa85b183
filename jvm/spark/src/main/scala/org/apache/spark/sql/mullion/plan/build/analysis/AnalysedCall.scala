package org.apache.spark.sql.mullion.plan.build.analysis

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.optimizer.{EliminateDistinct, ReplaceExpressions}
import org.apache.spark.sql.catalyst.planning.PhysicalAggregation
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.functions.{count, lit}
import org.apache.spark.sql.mullion.expressions.columns.{CustomRanges, SessionGap}
import org.apache.spark.sql.mullion.expressions.udf.PythonAggregate
import org.apache.spark.sql.mullion.operator.program.KnownKeys
import org.apache.spark.sql.mullion.plan.Shown
import org.apache.spark.sql.mullion.plan.options.{RowByRowBuilder, WindowChecks, WindowOptions}

import dev.mullion.MullionException
import dev.mullion.windows.rules.{PaneRules, RowByRow}
import dev.mullion.windows.spec.{CustomWindow, Setting, WindowSpec}

/** A call of `windowed(df, …).agg(…)` after Spark's analysis of the equivalent `groupBy(…).agg(…)`. Everything that
  * Spark accepts as an aggregate therefore has the same meaning here.
  *
  * @param rows
  *   the options of row-by-row processing, if it is needed
  * @param gap
  *   the gap of each row
  * @param ranges
  *   the ranges of each row
  * @param trigger
  *   the condition that closes a global window
  * @param closesWhen
  *   the condition over the contents of a pane that closes a global window
  * @param splitColumns
  *   the input of a function that splits global windows
  * @param aggregate
  *   Spark's aggregate of the keys and the functions
  * @param functions
  *   the aggregate functions
  * @param results
  *   the output columns over keys and functions
  * @param rowCount
  *   the number of rows of a pane over functions, if windows without rows repeat values
  */
private[build] final case class AnalysedCall(
    df: DataFrame,
    options: WindowOptions,
    rules: PaneRules,
    rows: Option[RowByRow],
    keys: WindowKeys,
    time: TimeColumn,
    gap: Option[SessionGap],
    ranges: Option[Expression],
    trigger: Option[Expression],
    closesWhen: Option[NamedExpression],
    splitColumns: Seq[Attribute],
    dedupe: Option[DedupeBy],
    aggregate: Aggregate,
    functions: Seq[AggregateExpression],
    results: Seq[NamedExpression],
    rowCount: Option[NamedExpression]
) {

  /** The known keys whose windows close without rows, if a table lists them. */
  val knownKeys: Option[KnownKeys] = options.knownKeys.map(of => KnownRows.keys(df, keys, of(df.sparkSession)))

  /** The rows below the aggregate. */
  def input: LogicalPlan = aggregate.child

  def aggregateColumns: Seq[NamedExpression] = AnalysedCall.columnsOf(aggregate).take(results.length)

  /** The condition that closes a global window, over its rows. */
  def closesWhenOfRows: Option[NamedExpression] =
    AnalysedCall.columnsOf(aggregate).slice(results.length, results.length + closesWhen.size).headOption

  /** The values of the last close of a key that its next close needs, over the input. */
  def lastValues: Seq[Expression] =
    if (rowCount.isDefined) aggregateColumns.map(Shown.unalias) ++ functions
    else Previous.in(aggregateColumns).map(_.child)
}

private[mullion] object AnalysedCall {

  private[build] def apply(
      df: DataFrame,
      window: WindowSpec,
      by: Seq[Column],
      options: WindowOptions,
      aggregates: Seq[Column]
  ): AnalysedCall = {
    if (aggregates.isEmpty && options.collect.isEmpty)
      throw MullionException.invalid(
        s"A pane has no aggregate. Name at least one, as in ${Setting.AggCount}."
      )
    val ranges = options.ranges.map(CustomRanges(df, _))
    val rules = WindowChecks(named(window, options, ranges), options)
    val time = TimeColumn(df, window, options)
    WindowKeys.checkTypes(df, by)
    val contents = options.collect.fold(aggregates)(c => Seq(RowByRowBuilder.collect(df, window, time.named, c)))
    val closesWhen = RowByRowBuilder.ofPane(df, window, options).map(_.as("mullion_closes_when"))
    val rowCount = if (rules.refinements.forward) Seq(count(lit(1)).as("row_count")) else Nil
    val aggregate =
      PythonAggregate.in(analysedAggregate(df, by, contents ++ closesWhen ++ rowCount), time.named)
    val (grouping, functions, all) = parts(aggregate)
    val (results, hidden) = all.takeRight(columnsOf(aggregate).length).splitAt(contents.length)
    val (conditions, counted) = hidden.splitAt(closesWhen.size)
    AnalysedCall(
      df,
      options,
      rules,
      RowByRowBuilder(window, options, time.delay),
      WindowKeys(df, by, grouping, aggregate.child),
      time,
      options.gap.map(SessionGap(df, _)),
      ranges,
      RowByRowBuilder.trigger(df, window, options.trigger),
      conditions.headOption,
      RowByRowBuilder.splitColumns(df, window, options),
      DedupeBy(df, options.dedupeBy, aggregate.child),
      aggregate,
      functions,
      results,
      counted.headOption
    )
  }

  /** A window with ranges of each row, described by their text. */
  private def named(window: WindowSpec, options: WindowOptions, ranges: Option[Expression]): WindowSpec = window match {
    case _: CustomWindow => CustomWindow(options.rangesText.getOrElse(ranges.fold("")(CallText.sqlOf)))
    case other           => other
  }

  private def analysedAggregate(df: DataFrame, by: Seq[Column], aggregates: Seq[Column]): Aggregate = {
    val grouped = df.groupBy(by: _*).agg(aggregates.head, aggregates.tail: _*)
    grouped.queryExecution.analyzed match {
      case aggregate: Aggregate => aggregate
      case other                =>
        throw MullionException.unsupported(
          s"These aggregates need more than one aggregation (Spark plans a ${other.nodeName} over it): compute expressions " +
            "over the aggregates, such as window functions or explode, on the result of windowed(...).agg(...)."
        )
    }
  }

  /** An aggregation in which replaceable expressions (`count_if`, `bool_and`, `between` …) are replaced, as Spark's
    * optimizer does in its own nodes, and a redundant DISTINCT (`max(DISTINCT v)`) is removed. Shared values are still
    * in `With`.
    */
  private def replaced(aggregate: Aggregate): LogicalPlan =
    EliminateDistinct(ReplaceExpressions(aggregate.copy(child = LocalRelation(aggregate.child.output))))

  /** The same without `With`: the form in which aggregates are named and compared. */
  def spelledOut(aggregate: Aggregate): LogicalPlan = replaced(aggregate).transformExpressions(SharedValues.inline)

  /** The grouping, the aggregate functions and the output columns over them. */
  private def parts(aggregate: Aggregate): (Seq[NamedExpression], Seq[AggregateExpression], Seq[NamedExpression]) =
    replaced(aggregate) match {
      case PhysicalAggregation(grouping, expressions, results, _) => (grouping, expressions, results)
      case other => throw new IllegalStateException(s"not an aggregation: ${other.nodeName}")
    }

  /** Expressions that Spark computes in its own nodes, or only supports in some: Python, the time of the batch, and
    * shared values, which code generation would compute before the conditions that guard them.
    */
  def isSparksOwn(e: Expression): Boolean =
    e.isInstanceOf[PythonUDF] || e.isInstanceOf[With] ||
      (e.containsPattern(CURRENT_LIKE) && !e.children.exists(_.containsPattern(CURRENT_LIKE)))

  private def columnsOf(aggregate: Aggregate): Seq[NamedExpression] =
    if (aggregate.conf.dataFrameRetainGroupColumns)
      aggregate.aggregateExpressions.drop(aggregate.groupingExpressions.length)
    else aggregate.aggregateExpressions
}
