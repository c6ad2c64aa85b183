package org.apache.spark.sql.mullion.exec.panes

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.mullion.expressions.AccumulatorLimit
import org.apache.spark.sql.types._

import dev.mullion.windows.rules.{PaneRules, SessionRules}

/** What an engine knows of its window: the rules, the columns of the rows that come, and what a record's key is made
  * of. An operator's program has it for each of its windows, and makes the engines.
  */
trait PaneProgram {

  /** The key columns. */
  def keys: Seq[Attribute]

  /** The column with the slice that a partial row belongs to. */
  def slice: Attribute

  /** The column that marks partial rows of reopened panes, if late rows reopen panes; of sessions, those that may be
    * late.
    */
  def marked: Option[Attribute]

  /** The column with the gap of sessions, in microseconds, if each row brings its own. */
  def gap: Option[Attribute]

  /** The column with the start of a pane, where it does not follow from the slice, which is then the pane's end. */
  def start: Option[Attribute]

  /** The time of rows. */
  def time: Attribute

  def functions: Seq[AggregateFunction]

  def functionResults: Seq[Attribute]

  def results: Seq[NamedExpression]

  /** Of the output, which firing of a pane a row is. */
  def pane: Attribute

  /** Of the output, the whole row where one is late, if late rows come out. */
  def lateRow: Option[Attribute]

  def rules: PaneRules

  /** How much a pane may hold. */
  def limit: AccumulatorLimit

  /** What is to be known if rows are worked on one by one, and there is no partial aggregate. */
  def rows: Option[RowProgram]

  /** The buffer of a function that counts all rows, if one does. */
  def rowsCounted: Option[Attribute]

  def isSession: Boolean = rules.isInstanceOf[SessionRules]

  def closesAtEnd: Boolean = rules.refinements.atEnd

  /** What the partial aggregate groups by. */
  def grouping: Seq[Attribute] = (keys :+ slice) ++ marked ++ gap ++ start

  /** What partial rows say beside the functions' buffers: of sessions, the first and the last time; and at last, where
    * that is asked for and no function says it, how many rows.
    */
  def extras: Seq[AggregateFunction]

  /** The columns of partial rows: what they are grouped by, then the buffers. */
  def partial: Seq[Attribute]

  protected def countsRows: Boolean = isSession || rules.refinements.count.isDefined

  /** The column of partial rows that says how many rows are in them, if one does. */
  private[exec] def rowsCount: Option[Attribute] = Option.when(countsRows)(rowsCounted.getOrElse(partial.last))

  /** Where the columns of partial rows stand. */
  private[exec] def layout: PartialLayout = new PartialLayout(this)

  /** Which rows put aside are late together: those of one key, time and gap. */
  def lateKey: Seq[Attribute] = keys ++ Seq(slice) ++ gap

  private[exec] def keyFields: Seq[StructField] =
    keys.zipWithIndex.map { case (k, i) => StructField(s"key$i", k.dataType) }
}

private[exec] object PaneProgram {

  /** The column of a record's key that is a time or a number. */
  def time(name: String): StructField = StructField(name, LongType, nullable = false)
}
