package org.apache.spark.sql.mullion.operator.engine

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorCustomMetric
import org.apache.spark.sql.mullion.expressions.rows.{ArrivalNumber, CollectRows}
import org.apache.spark.sql.mullion.expressions.udf.{PythonAggregate, SplitAsker, SplitBy}
import org.apache.spark.sql.mullion.operator.metrics.WindowMetrics
import org.apache.spark.sql.mullion.state.header.StateHeader
import org.apache.spark.sql.mullion.state.record.KeyOrder
import org.apache.spark.sql.types.LongType

import dev.mullion.windows.rules.RowByRow

/** The additional parameters of row-by-row processing, in order of arrival or of time.
  *
  * {{{
  *   child - Project: arrival - [shuffle by key] - [sort by key (, time), arrival] - WindowExec
  * }}}
  *
  * @param input
  *   the columns of input rows, including `arrival`
  * @param arrival
  *   a row's order of arrival within its batch: its source partition, and its place there
  * @param gap
  *   the gap of sessions, in microseconds, if each row has its own
  * @param filters
  *   for each function the condition of its FILTER clause, or a literal `true`
  * @param trigger
  *   the column that closes a global window, if one does
  * @param lateColumns
  *   the fields of late rows, if they are emitted
  * @param splits
  *   the function that splits global windows, if any
  * @param closesWhen
  *   the condition over the contents of a pane that closes a global window, over keys and function results
  */
final case class RowProgram(
    byRow: RowByRow,
    input: Seq[Attribute],
    arrival: Attribute,
    time: Attribute,
    gap: Option[Attribute],
    filters: Seq[Expression],
    trigger: Option[Attribute],
    lateColumns: Seq[Attribute],
    splits: Option[Splitting],
    closesWhen: Option[Expression]
) {

  /** A row's number among those of its key, which the engine adds. */
  val number: Attribute = AttributeReference("number", LongType, nullable = false)()

  /** The functions for the engine, which counts rows itself to report the pane with too many. Python aggregates add
    * rows immediately, because there is no partial aggregate.
    */
  def functions(of: Seq[AggregateFunction]): Seq[AggregateFunction] = of.map(
    _.transform {
      case collect: CollectRows    => collect.copy(collected = collect.collected.copy(maxRows = Long.MaxValue))
      case python: PythonAggregate => python.copy(addsEarly = true)
      case ArrivalNumber()         => number
    }.asInstanceOf[AggregateFunction]
  )

  /** True if a pane's rows are stored in pieces, instead of aggregated. */
  def keepsRows: Boolean = byRow.collect.isDefined

  /** Its part of the header. */
  def header: StateHeader.Rows = {
    def column(of: Attribute) = s"${of.name} ${of.dataType.sql}"
    StateHeader
      .Rows(byRow)
      .copy(
        splitOver = splits.map(_.columns.map(_.name).toList),
        buffered = splits.map(_.kept.map(column).toList)
      )
  }

  /** Its metrics: the operator itself counts the treatment of rows. */
  def metrics: Seq[StatefulOperatorCustomMetric] = WindowMetrics.ofRows(byRow.running)

  /** The sort order that restores the order of arrival per key, or by time where that decides. */
  def ordering(keys: Seq[Attribute]): Seq[SortOrder] = {
    val byTime = Option.when(byRow.inOrderOfTime)(SortOrder(time, Ascending))
    KeyOrder.ordering(keys) ++ byTime :+ SortOrder(arrival, Ascending)
  }
}

/** The additional parameters of a function that splits global windows.
  *
  * @param columns
  *   the function's input columns
  * @param kept
  *   the stored columns of a row: those, and the input of the aggregates
  * @param asker
  *   calls the function, once a batch is about to run
  */
final case class Splitting(columns: Seq[Attribute], kept: Seq[Attribute], by: SplitBy, asker: Option[SplitAsker])
