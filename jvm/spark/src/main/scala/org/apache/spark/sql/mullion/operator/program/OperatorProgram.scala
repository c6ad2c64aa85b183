package org.apache.spark.sql.mullion.operator.program

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.mullion.operator.engine.{LateProgram, PaneCounts, PaneEngine, RowProgram, Splitting}
import org.apache.spark.sql.mullion.state.header.OperatorHeader
import org.apache.spark.sql.mullion.state.record.{FamilySpec, StatePartition}

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.spec.Language

/** The program of an operator, for one window or for several: created on the driver, run in the tasks. */
trait OperatorProgram extends Product with Serializable {

  /** Identifies this operator in a plan. */
  def id: String

  /** The partitioning of state: rows with equal values of these columns are in one partition. */
  def keys: Seq[Attribute]

  /** The distribution keys; none if a previous stage has distributed rows. */
  def distributed: Option[Seq[Attribute]]

  def output: Seq[Attribute]

  /** The output column with the firing. */
  def pane: Attribute

  /** The output column with an entire late row, if late rows are emitted. */
  def lateRow: Option[Attribute]

  /** The kinds of record in state; the first is the one that Spark records. */
  def families: Seq[FamilySpec]

  /** The required order of a partition's rows. */
  def ordering: Seq[SortOrder]

  def onProcessingTime: Boolean

  /** The language of the request, for messages. */
  def language: Language

  /** The time without rows after which the event clock follows the wall clock; none for never. */
  def idleAfter: Option[Long]

  /** The limit by which the time of a row may be ahead of the wall clock, in microseconds; none for any. */
  def maxAhead: Option[Long]

  /** True if panes have readings of the stream's event clock, from which intervals of early firings may count. */
  def readsStream: Boolean

  /** True if panes may fire by the wall clock, whatever clock closes them. */
  def firesByWall: Boolean

  /** True if the clocks of keys follow the wall clock. */
  def closesByWall: Boolean = rows.exists(_.byRow.closesByWall)

  /** True if records of keys have timers by the wall clock. */
  def keysTimedByWall: Boolean = rows.exists(_.byRow.timedByWall)

  /** True if open panes close when the input of the query ends. */
  def closesAtEnd: Boolean

  /** True if the output's window has the stream's watermark. */
  def keepsWatermark: Boolean

  /** The event-time watermark for downstream operators; see `PaneRules`. */
  def outputWatermark(clock: Long): Long

  /** The program of row-by-row processing, if that is needed. */
  def rows: Option[RowProgram]

  /** The function that splits global windows, if any. */
  def splits: Option[Splitting] = rows.flatMap(_.splits)

  /** The same program, with its function ready to be called by the tasks of a batch. */
  private[operator] def asking(metrics: Map[String, SQLMetric]): OperatorProgram

  /** The output of late rows that were put aside, per window, for the nodes that emit them. */
  def late: Seq[LateProgram]

  /** The keys whose windows close without rows from the start on, if a table lists them. */
  def knownKeys: Option[KnownKeys] = None

  /** The program as text. */
  def describe: String

  /** The header of the state, which distinguishes it from another query's. */
  def header: OperatorHeader

  /** The conversion of state with another header, whose changes are supported. */
  private[operator] def adaptation(was: OperatorHeader): StateAdaptation

  /** The rows of a partition as the engine requires them, from sorted rows of the partial aggregate. */
  def merged(rows: Iterator[InternalRow]): Iterator[InternalRow] = rows

  /** The engine for one partition in one batch. */
  def engine(clock: BatchClock, partition: StatePartition, counts: PaneCounts): PaneEngine
}
