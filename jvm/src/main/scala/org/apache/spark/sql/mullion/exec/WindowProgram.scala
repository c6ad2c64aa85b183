package org.apache.spark.sql.mullion.exec

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.mullion.{AggregateText, StateChoice, WindowedBuilder}
import org.apache.spark.sql.mullion.state.{FamilySpec, RecordOrder, StateHeader, StatePartition}
import org.apache.spark.sql.types._

import dev.mullion.windows.{BatchClock, PaneRules}

/** What an operator does, apart from where in a plan it stands: made on the driver, run in the tasks.
  *
  * @param id
  *   tells this operator from others in one plan
  * @param keys
  *   the key columns
  * @param slice
  *   the column with the slice that a partial row belongs to
  * @param reopened
  *   the column that marks partial rows of reopened panes, if late rows reopen panes
  * @param partial
  *   the columns of the partial aggregate: keys, slice, reopened, then the functions' buffers
  */
final case class WindowProgram(
    id: String,
    keys: Seq[Attribute],
    slice: Attribute,
    reopened: Option[Attribute],
    functions: Seq[AggregateFunction],
    functionResults: Seq[Attribute],
    results: Seq[NamedExpression],
    window: Attribute,
    pane: Attribute,
    lateRow: Option[Attribute],
    rules: PaneRules,
    state: StateChoice,
    text: AggregateText
) {
  // A late row has no results, whatever their functions never give.
  def output: Seq[Attribute] =
    (keys :+ window :+ pane) ++ results
      .map(_.toAttribute)
      .map(a => a.withNullability(a.nullable || lateRow.isDefined)) ++ lateRow

  /** What the partial aggregate groups by. */
  def grouping: Seq[Attribute] = (keys :+ slice) ++ reopened

  def partial: Seq[Attribute] = grouping ++ functions.flatMap(_.inputAggBufferAttributes)

  /** The kinds of record in state; the first is the one that grows with the panes. */
  val families: Seq[FamilySpec] =
    (if (rules.window.overlaps) SlidingPanes.families(this) else TumblingPanes.families(this)) :+ PartitionTotals.family

  private[exec] def keyFields: Seq[StructField] =
    keys.zipWithIndex.map { case (k, i) => StructField(s"key$i", k.dataType) }

  private[exec] def accumulators(notes: Seq[DataType]): Accumulators =
    new Accumulators(functions, notes, partial, grouping.length)

  private[exec] def paneOutput(keyLayout: Seq[Attribute], notes: Seq[DataType]): PaneOutput =
    new PaneOutput(keyLayout, keys, notes, functions, functionResults, results, lateRow.map(_.dataType))

  /** How records are kept that are in order of one time: where in the key it stands is the store's choice. */
  private[exec] def timeOrder: RecordOrder = state match {
    case StateChoice.RocksDb => RecordOrder.ByLast
    case StateChoice.Hdfs    => RecordOrder.ByFirst(1)
  }

  /** A key's columns and one time, in that order. */
  private[exec] def timed[T](time: T, key: Seq[T]): Seq[T] =
    if (timeOrder == RecordOrder.ByLast) key :+ time else time +: key

  private[exec] def reopenedAt: Option[Int] = reopened.map(_ => keys.length + 1)

  /** What is written beside the state, to tell it from another query's. */
  def header: StateHeader = StateHeader(
    format = StateHeader.currentFormat,
    size = rules.window.size,
    slide = rules.window.slide,
    offset = rules.window.offset,
    allowedLateness = rules.allowedLateness,
    earlyEvery = rules.early.fold(0L)(_.every),
    earlyUnchanged = rules.early.exists(_.unchanged),
    keys = WindowedBuilder.named(keys).map(k => s"${k.name} ${k.dataType.sql}").toList,
    aggregates = text.aggregates.toList,
    buffers = functions.flatMap(_.aggBufferAttributes).map(_.dataType.sql).toList,
    input = text.input.json,
    by = text.keys.toList,
    state = state.name
  )

  /** The engine for one partition in one batch. */
  def engine(clock: BatchClock, partition: StatePartition, counts: PaneCounts): PaneEngine =
    if (rules.window.overlaps) new SlidingPanes(this, clock, partition, counts)
    else new TumblingPanes(this, clock, partition, counts)
}
