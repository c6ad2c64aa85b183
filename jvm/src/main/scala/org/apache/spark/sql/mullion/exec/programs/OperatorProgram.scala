package org.apache.spark.sql.mullion.exec.programs

import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.mullion.exec.panes.{LateProgram, PaneCounts, PaneEngine, RowProgram, Splitting}
import org.apache.spark.sql.mullion.state.header.OperatorHeader
import org.apache.spark.sql.mullion.state.records.{FamilySpec, StatePartition}

import dev.mullion.windows.clock.BatchClock

/** What an operator does, for one window or for several: made on the driver, run in the tasks. */
trait OperatorProgram extends Product with Serializable {

  /** Tells this operator from others in one plan. */
  def id: String

  /** What state is divided by: rows that agree in these columns come to one partition. */
  def keys: Seq[Attribute]

  /** What rows are distributed by; none where a stage before has done it. */
  def distributed: Option[Seq[Attribute]]

  def output: Seq[Attribute]

  /** Of the output, which firing of a pane a row is. */
  def pane: Attribute

  /** Of the output, the whole row where one is late, if late rows come out. */
  def lateRow: Option[Attribute]

  /** The kinds of record in state; the first is the one that Spark is told of. */
  def families: Seq[FamilySpec]

  /** In what order the rows of a partition must come. */
  def ordering: Seq[SortOrder]

  def onProcessingTime: Boolean

  /** How long the source must be empty for the event clock to follow the wall clock; none for never. */
  def idleAfter: Option[Long]

  /** True if panes may fire by the wall clock, whatever they close by. */
  def firesByWall: Boolean

  /** True if the clocks of keys go on with the wall clock. */
  def keysFollowWall: Boolean = rows.exists(_.byRow.keysFollowWall)

  /** True if what is open closes when the input of the query ends. */
  def closesAtEnd: Boolean

  /** True if the output's window goes with the stream's watermark. */
  def keepsWatermark: Boolean

  /** What is told downstream of event time; see `PaneRules`. */
  def outputWatermark(clock: Long): Long

  /** What is to be known if rows are worked on one by one. */
  def rows: Option[RowProgram]

  /** Where a function splits global windows. */
  def splits: Option[Splitting] = rows.flatMap(_.splits)

  /** With the function ready to be asked by the tasks of a batch. */
  private[exec] def asking(metrics: Map[String, SQLMetric]): OperatorProgram

  /** How late rows come out that were put aside, window by window, for those that send them out. */
  def late: Seq[LateProgram]

  /** The program in words. */
  def describe: String

  /** What is written beside the state, to tell it from another query's. */
  def header: OperatorHeader

  /** What is to be done with state that another header is of, whose changes go on. */
  private[exec] def adaptation(was: OperatorHeader): StateAdaptation

  /** The engine for one partition in one batch. */
  def engine(clock: BatchClock, partition: StatePartition, counts: PaneCounts): PaneEngine
}
