package org.apache.spark.sql.mullion.plan

import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeSet, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.mullion.expressions.columns.KeyColumns
import org.apache.spark.sql.mullion.expressions.functions.AggregateText
import org.apache.spark.sql.mullion.expressions.udf.SplitBy
import org.apache.spark.sql.mullion.operator.engine.output.LastClose
import org.apache.spark.sql.mullion.operator.program.KnownKeys

import dev.mullion.windows.rules.{PaneRules, RowByRow}
import dev.mullion.windows.spec.Language

/** Aggregates in panes: one output row per firing of a pane.
  *
  * Every attribute has its own field, because Spark renames attributes only in `Expression`s that are a node's own
  * fields, and strips aliases from all but its own nodes. Functions are bare, because Spark's analysis rejects an
  * `AggregateExpression` outside of an `Aggregate`; the strategy wraps them again.
  *
  * @param keys
  *   the grouping columns of the child
  * @param time
  *   the event time, a TIMESTAMP column of the child; on processing time, in a stream, a column that this node adds
  * @param gap
  *   the gap of sessions where each row has its own: a BIGINT column of the child, in microseconds
  * @param ranges
  *   the ranges of custom windows: an array column of the child
  * @param trigger
  *   the condition that closes a global window: a column of the child
  * @param closesWhen
  *   the condition over the contents of a pane that closes a global window, over keys and function results
  * @param splitColumns
  *   the input of a function that splits global windows: columns of the child
  * @param functions
  *   the aggregate functions
  * @param filters
  *   for each function the condition of its FILTER clause, or a literal `true`
  * @param functionResults
  *   for each function the attribute with which `results` refers to its value
  * @param results
  *   the values of the output columns after `window` and `pane`, over keys and function results
  * @param resultColumns
  *   those columns
  * @param lateColumns
  *   the fields of `lateRow`: the input's columns, if late rows are emitted
  * @param lateRow
  *   the output column with late rows, if they are emitted
  */
case class WindowedAggregate(
    keys: Seq[Attribute],
    time: Attribute,
    gap: Option[Attribute],
    ranges: Option[Attribute],
    trigger: Option[Attribute],
    closesWhen: Option[Expression],
    splitColumns: Seq[Attribute],
    functions: Seq[AggregateFunction],
    filters: Seq[Expression],
    functionResults: Seq[Attribute],
    results: Seq[Expression],
    resultColumns: Seq[Attribute],
    window: Attribute,
    pane: Attribute,
    lateColumns: Seq[Attribute],
    lateRow: Option[Attribute],
    terms: PaneTerms,
    child: LogicalPlan
) extends UnaryNode {
  def rules: PaneRules = terms.rules
  def idleAfter: Option[Long] = terms.idleAfter
  def maxAhead: Option[Long] = terms.maxAhead
  def text: AggregateText = terms.text
  def split: Option[SplitBy] = terms.split
  def rows: Option[RowByRow] = terms.rows

  override def output: Seq[Attribute] = (keys :+ window :+ pane) ++ resultColumns ++ lateRow

  override def producedAttributes: AttributeSet =
    AttributeSet(functionResults ++ resultColumns ++ lateRow ++ stamped :+ window :+ pane)

  private def stamped: Option[Attribute] = Option.when(rules.onProcessingTime && isStreaming)(time)

  def namedResults: Seq[NamedExpression] = results.zip(resultColumns).map { case (value, column) =>
    Alias(value, column.name)(column.exprId)
  }

  /** With the attributes of the child, which may be nullable where they were not before. */
  private[mullion] def overNullable: WindowedAggregate = {
    val inChild = child.output.map(a => a.exprId -> a).toMap
    transformExpressions { case a: Attribute => inChild.getOrElse(a.exprId, a) }.asInstanceOf[WindowedAggregate]
  }

  override def simpleString(maxFields: Int): String = s"$nodeName $inWords"

  private[mullion] def inWords: String = {
    val by = KeyColumns.named(keys).map(_.name).mkString("[", ", ", "]")
    val on = rules.on(time.name)
    val words = Seq(rules.describe) ++ text.once ++ rows.map(_.describe) ++ Seq(s"by $by", on)
    words.filter(_.nonEmpty).mkString(", ")
  }

  override protected def withNewChildInternal(newChild: LogicalPlan): WindowedAggregate = copy(child = newChild)
}

/** The options of a node's panes that involve no columns.
  *
  * @param idleAfter
  *   the time without rows after which the event clock follows the wall clock, in microseconds; none for never
  * @param maxAhead
  *   how far the time of a row may be ahead of the wall clock, in microseconds; none for any
  * @param text
  *   the aggregation as text
  * @param split
  *   the function that splits global windows, if any
  * @param rows
  *   the options of row-by-row processing, if it is needed
  * @param ticks
  *   whether the rows include a source of ticks
  * @param drains
  *   whether another window may replace this one, or this one another, while the old panes stay open until they close
  * @param drops
  *   whether the panes of removed windows that shared a query with this one are dropped
  * @param drained
  *   the boundary of a replaced window whose panes have closed, in microseconds, if there was one when the query
  *   started
  * @param delay
  *   the longest delay of the stream's watermarks, in microseconds
  * @param language
  *   the language of the request, for messages
  * @param last
  *   the values that a close takes from the close before it, if any
  * @param known
  *   the keys whose windows close without rows from the start on, if a table lists them
  */
final case class PaneTerms(
    rules: PaneRules,
    idleAfter: Option[Long],
    maxAhead: Option[Long],
    text: AggregateText,
    split: Option[SplitBy],
    rows: Option[RowByRow],
    ticks: Boolean,
    drains: Boolean = false,
    drops: Boolean = false,
    drained: Option[Long] = None,
    delay: Long = 0L,
    language: Language = Language.Scala,
    last: Option[LastClose] = None,
    knownKeys: Option[KnownKeys] = None
)
