package org.apache.spark.sql.mullion.exec.panes

import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorCustomMetric
import org.apache.spark.sql.mullion.exec.metrics.WindowMetrics
import org.apache.spark.sql.mullion.expressions.{ArrivalNumber, CollectRows, SplitAsker, SplitBy}
import org.apache.spark.sql.mullion.expressions.udf.PythonAggregate
import org.apache.spark.sql.mullion.state.header.StateHeader
import org.apache.spark.sql.mullion.state.records.KeyOrder
import org.apache.spark.sql.types.LongType

import dev.mullion.windows.rules.RowByRow

/** What a program needs to know beside, where rows are worked on one by one in order of arrival.
  *
  * {{{
  *   child - Project: arrival - [shuffle by key] - [sort by key, arrival] - WindowExec
  * }}}
  *
  * @param input
  *   the columns of rows as they come, `arrival` among them
  * @param arrival
  *   a row's place in the order of arrival within its batch: its source partition, and its place there
  * @param gap
  *   the gap of sessions, in microseconds, if each row brings its own
  * @param filters
  *   for each function the condition under which it takes a row, or a literal `true`
  * @param trigger
  *   the column that tells when a global window closes, if one does
  * @param lateColumns
  *   what late rows are made of, if they come out
  * @param splits
  *   where a function splits global windows
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
    splits: Option[Splitting]
) {

  /** A row's number among those of its key, which the engine adds to it. */
  val number: Attribute = AttributeReference("number", LongType, nullable = false)()

  /** The functions as the engine runs them: it counts rows itself, and can say which pane has too many. Python
    * aggregates add rows as they come, because no partial aggregate does.
    */
  def functions(of: Seq[AggregateFunction]): Seq[AggregateFunction] = of.map(
    _.transform {
      case collect: CollectRows    => collect.copy(collected = collect.collected.copy(maxRows = Long.MaxValue))
      case python: PythonAggregate => python.copy(addsEarly = true)
      case ArrivalNumber()         => number
    }.asInstanceOf[AggregateFunction]
  )

  /** True if a pane's rows are kept as they are, in pieces, and not added up. */
  def keepsRows: Boolean = byRow.collect.isDefined

  /** What a header says of it. */
  def header: StateHeader.Rows = {
    def column(of: Attribute) = s"${of.name} ${of.dataType.sql}"
    StateHeader
      .Rows(byRow)
      .copy(
        splitOver = splits.map(_.columns.map(_.name).toList),
        buffered = splits.map(_.kept.map(column).toList)
      )
  }

  /** What it counts: where rows are worked on one by one, the operator counts itself what becomes of them. */
  def metrics: Seq[StatefulOperatorCustomMetric] = WindowMetrics.ofRows(byRow.running)

  /** By what rows are sorted that their order of arrival is lost for. */
  def ordering(keys: Seq[Attribute]): Seq[SortOrder] =
    KeyOrder.ordering(keys) :+ SortOrder(arrival, Ascending)
}

/** What a program needs to know beside, where a function splits global windows.
  *
  * @param columns
  *   the columns that the function sees
  * @param kept
  *   the columns that are kept of a row: those, and what the aggregates read
  * @param asker
  *   what asks the function, once a batch is about to run
  */
final case class Splitting(columns: Seq[Attribute], kept: Seq[Attribute], by: SplitBy, asker: Option[SplitAsker])
