package org.apache.spark.sql.mullion.operator.engine

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.mullion.expressions.functions.AccumulatorLimit
import org.apache.spark.sql.types._

import dev.mullion.windows.rules.{PaneRules, SessionRules}

/** An engine's view of its window: the rules, the columns of input rows, and the key of records. An operator's program
  * has one per window, and creates the engines.
  */
trait PaneProgram {

  /** The key columns. */
  def keys: Seq[Attribute]

  /** The column with the slice of a partial row. */
  def slice: Attribute

  /** The column that marks partial rows of reopened panes, if late rows reopen panes; for sessions, possibly late rows.
    */
  def marked: Option[Attribute]

  /** The column with the gap of sessions, in microseconds, if each row has its own. */
  def gap: Option[Attribute]

  /** The column with the start of a pane, where it does not follow from the slice, which is then the pane's end. */
  def start: Option[Attribute]

  /** The time of rows. */
  def time: Attribute

  def functions: Seq[AggregateFunction]

  def functionResults: Seq[Attribute]

  def results: Seq[NamedExpression]

  /** The output column with the firing. */
  def pane: Attribute

  /** The output column with an entire late row, if late rows are emitted. */
  def lateRow: Option[Attribute]

  def rules: PaneRules

  /** The size limit of a pane. */
  def limit: AccumulatorLimit

  /** The program of row-by-row processing, if rows are processed one by one without a partial aggregate. */
  def rows: Option[RowProgram]

  /** The buffer of a function that counts all rows, if one does. */
  def rowsCounted: Option[Attribute]

  /** True if other calls on the partition are made between two firings. */
  def interruptsFirings: Boolean = false

  def isSession: Boolean = rules.isInstanceOf[SessionRules]

  def closesAtEnd: Boolean = rules.refinements.atEnd

  /** The grouping of the partial aggregate. */
  def grouping: Seq[Attribute] = (keys :+ slice) ++ marked ++ gap ++ start

  /** The columns of partial rows after the functions' buffers: for sessions, the first and the last time; and the
    * number of rows, if it is needed and no function counts it.
    */
  def extras: Seq[AggregateFunction]

  /** The columns of partial rows: their grouping, then the buffers. */
  def partial: Seq[Attribute]

  protected def countsRows: Boolean = isSession || rules.refinements.countsRows

  /** The column of partial rows with their number of rows, if there is one. */
  private[operator] def rowsCount: Option[Attribute] = Option.when(countsRows)(rowsCounted.getOrElse(partial.last))

  /** The indexes of partial rows' columns. */
  private[operator] def layout: PartialLayout = new PartialLayout(this)

  /** The columns that determine whether rows put aside are late: key, time and gap. */
  def lateKey: Seq[Attribute] = keys ++ Seq(slice) ++ gap

  private[operator] def keyFields: Seq[StructField] =
    keys.zipWithIndex.map { case (k, i) => StructField(s"key$i", k.dataType) }
}

private[operator] object PaneProgram {

  /** The column of a record's key with a time or a number. */
  def time(name: String): StructField = StructField(name, LongType, nullable = false)
}
