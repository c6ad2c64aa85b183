package org.apache.spark.sql.mullion.operator.program

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateFunction, Count, Max, Min}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.mullion.expressions.columns.KeyColumns
import org.apache.spark.sql.mullion.expressions.functions.{AccumulatorLimit, AggregateText, KnownAggregates}
import org.apache.spark.sql.mullion.operator.engine.accumulators.{Accumulators, MergedGroups, PaneSums}
import org.apache.spark.sql.mullion.operator.engine.aligned.{SlidingPanes, TumblingPanes}
import org.apache.spark.sql.mullion.operator.engine.output.{Firing, LastClose, LastClosePanes, LateOutput}
import org.apache.spark.sql.mullion.operator.engine.rowwise.{ArrivalFamilies, ArrivalPanes, SplitPanes}
import org.apache.spark.sql.mullion.operator.engine.session.SessionPanes
import org.apache.spark.sql.mullion.operator.engine.{
  LateProgram,
  PaneCounts,
  PaneEngine,
  PaneProgram,
  PartitionTotals,
  RowProgram
}
import org.apache.spark.sql.mullion.state.header.{DrainHeader, HeaderWindow, OperatorHeader, StateHeader}
import org.apache.spark.sql.mullion.state.record.{FamilySpec, KeyOrder, StatePartition}
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.{
  AlignedRules,
  AroundRules,
  CustomRules,
  NumberedRules,
  OrderedRules,
  PaneRules,
  SessionRules
}
import dev.mullion.windows.spec.Language

/** The program of an operator for one window, independent of its place in a plan.
  *
  * @param id
  *   identifies this operator in a plan
  * @param keys
  *   the key columns
  * @param slice
  *   the column with the slice of a partial row
  * @param marked
  *   the column that marks partial rows of reopened panes, if late rows reopen panes; for sessions, possibly late rows
  * @param gap
  *   the column with the gap of sessions, in microseconds, if each row has its own
  * @param start
  *   the column with the start of a pane, where it does not follow from the slice, which is then the pane's end
  * @param time
  *   the time of rows
  * @param idleAfter
  *   the time without rows after which the event clock follows the wall clock; none for never
  * @param maxAhead
  *   how far the time of a row may be ahead of the wall clock, in microseconds; none for any
  * @param partial
  *   the columns of the partial aggregate: keys, slice, reopened, then the functions' buffers
  * @param limit
  *   the size limit of a pane
  * @param rows
  *   the program of row-by-row processing, if rows are processed one by one without a partial aggregate
  * @param byShard
  *   whether all rows of a key are in one partition already, because a previous stage distributed them
  * @param rowsCounted
  *   the buffer of a function that counts all rows, if one does
  * @param alone
  *   for several windows in one query, the reason why this one has its own operator, if it has
  * @param ticks
  *   whether its query has a source that requests batches without rows
  * @param drained
  *   the boundary of a replaced window whose panes have closed, in microseconds, if there was one when the query
  *   started
  * @param delay
  *   the longest delay of the stream's watermarks, in microseconds
  * @param language
  *   the language of the request, for messages
  * @param last
  *   the values that a close takes from the close before it, if any
  * @param knownKeys
  *   the keys whose windows close without rows from the start on, if a table lists them
  */
final case class WindowProgram(
    id: String,
    keys: Seq[Attribute],
    slice: Attribute,
    marked: Option[Attribute],
    gap: Option[Attribute],
    start: Option[Attribute],
    time: Attribute,
    functions: Seq[AggregateFunction],
    functionResults: Seq[Attribute],
    results: Seq[NamedExpression],
    window: Attribute,
    pane: Attribute,
    lateRow: Option[Attribute],
    rules: PaneRules,
    idleAfter: Option[Long],
    maxAhead: Option[Long],
    text: AggregateText,
    limit: AccumulatorLimit,
    rows: Option[RowProgram] = None,
    byShard: Boolean = false,
    rowsCounted: Option[Attribute] = None,
    alone: Option[String] = None,
    ticks: Boolean = false,
    drained: Option[Long] = None,
    delay: Long = 0L,
    language: Language = Language.Scala,
    last: Option[LastClose] = None,
    override val knownKeys: Option[KnownKeys] = None
) extends OperatorProgram
    with PaneProgram {
  // A late row has no results, and the first pane of a key no previous values, even for functions that are never null.
  def output: Seq[Attribute] =
    (keys :+ window :+ pane) ++ results
      .map(_.toAttribute)
      .map(a => a.withNullability(a.nullable || lateRow.isDefined || last.isDefined)) ++ lateRow

  def distributed: Option[Seq[Attribute]] = Option.unless(byShard)(keys)

  /** True if the operator accepts several partial rows per group, one from each task before the shuffle, without a
    * merge. This holds if rows are added in place and fire nothing. Merging needs a table of all groups, and with many
    * keys most groups have one row; the operator gets rows sorted, and finds the previous record again.
    */
  def takesSeveralOfGroup: Boolean =
    Accumulators.areInPlace(functions) && (isSession || (!rules.firesOpen && marked.isEmpty))

  /** True if the operator merges the partial rows of a group itself, because they are sorted by their key. */
  def mergesGroups: Boolean = rows.isEmpty && !byShard && !takesSeveralOfGroup && keys.nonEmpty

  override def merged(rows: Iterator[InternalRow]): Iterator[InternalRow] =
    if (mergesGroups) new MergedGroups(rows, keys, grouping, partial, functions ++ extras) else rows

  // Created once, on the driver: all tasks must use the buffers of the same function.
  val extras: Seq[AggregateFunction] = {
    val times = if (isSession) Seq(Min(time), Max(time)) else Nil
    times ++ Option.when(countsRows && rowsCounted.isEmpty)(Count(Literal(1)))
  }

  val partial: Seq[Attribute] = grouping ++ (functions ++ extras).flatMap(_.inputAggBufferAttributes)

  /** The kinds of record in state; the first is the one that grows with the panes. */
  val families: Seq[FamilySpec] =
    (rules match {
      case _ if splits.isDefined                      => SplitPanes.families(this)
      case _ if rows.isDefined                        => rows.toSeq.flatMap(ArrivalFamilies(this, _))
      case _: SessionRules                            => SessionPanes.families(this)
      case aligned: AlignedRules if aligned.knowsKeys => SlidingPanes.families(this)
      case _: AlignedRules | _: CustomRules           => TumblingPanes.families(this)
      case _: AroundRules                             => SlidingPanes.families(this)
      case _: NumberedRules | _: OrderedRules         => throw WindowProgram.needsRows(this)
    }) ++ last.map(LastClosePanes.family(this, output, _)) :+ PartitionTotals.family

  /** The window, its firings and its keys, as text. */
  def describe: String =
    (Seq(words, KeyColumns.named(keys).map(_.name).mkString("by [", ", ", "]")) ++ alone).mkString(", ")

  private def words: String =
    (Seq(rules.describe) ++ text.once ++ rows.map(_.byRow.describe).filter(_.nonEmpty).toSeq).mkString(", ")

  override def interruptsFirings: Boolean = last.isDefined

  def onProcessingTime: Boolean = rules.onProcessingTime

  def readsStream: Boolean = rules.firesOpen && !onProcessingTime && rows.forall(_.byRow.delayByKey.isEmpty)

  def firesByWall: Boolean = rules.early.isDefined

  def outputWatermark(clock: Long): Long = rules.outputWatermark(clock)

  def keepsWatermark: Boolean = rules match {
    case _: NumberedRules => false
    case _                => rows.forall(_.byRow.delayByKey.isEmpty)
  }

  def ordering: Seq[SortOrder] = rows.fold(KeyOrder.ordering(keys))(_.ordering(keys))

  private[operator] def asking(metrics: Map[String, SQLMetric]): WindowProgram = copy(rows = rows.map { r =>
    r.copy(splits = r.splits.map(s => s.copy(asker = Some(s.by.asker(s.kept, s.columns, metrics)))))
  })

  private def format: Int = rules match {
    case _ if rows.isDefined                         => StateHeader.currentFormat
    case _: SessionRules                             => StateHeader.sessionsFormat
    case aligned: AlignedRules if aligned.keepsApart => StateHeader.numberedFormat
    case _ if SlidingPanes.keepsBlocks(this)         => StateHeader.blocksFormat
    case _                                           => StateHeader.currentFormat
  }

  def header: StateHeader = StateHeader(
    format = format,
    window = HeaderWindow(rules.window, text.gap, text.trigger).copy(endsWith = text.endsWith),
    allowedLateness = rules.allowedLateness,
    earlyEvery = rules.early.fold(0L)(_.every),
    earlyUnchanged = rules.early.exists(_.unchanged),
    refinements = rules.refinements,
    clock = rules.clock.name,
    keys = KeyColumns.named(keys).map(k => s"${k.name} ${k.dataType.sql}").toList,
    aggregates = text.aggregates.toList,
    buffers = functions.flatMap(f => f.aggBufferAttributes.map(_.dataType.sql + PaneSums.words(this, f))).toList,
    input = text.input.json,
    by = text.keys.toList,
    rows = rows.map(_.header),
    byShard = Option.when(byShard)(true),
    earlyByWall = Option.when(rules.early.exists(_.byWall))(true),
    dedupe = Option.when(text.dedupe.nonEmpty)(text.dedupe.toList),
    functions = functionTexts,
    fromNow = functions.lastOption.collect { case _: KnownAggregates => true },
    ticks = Some(ticks),
    drained = drained,
    time = text.time,
    typed = Some(typed),
    delay = Some(delay),
    lastValues = Option.when(text.lastValues.nonEmpty)(text.lastValues.toList)
  )

  /** For each function by its text, and for the window, the columns whose types state depends on. */
  private def typed: Map[String, List[String]] = {
    val ofFunctions = functionTexts.toList.flatten.zip(text.typed).map { case (f, columns) => f.text -> columns.toList }
    (ofFunctions :+ StateHeader.Itself -> text.typedByWindow.toList).filter(_._2.nonEmpty).toMap
  }

  /** The functions by their texts, if each text is unique. */
  private def functionTexts: Option[List[StateHeader.Function]] = {
    val tracking = functions.lastOption.collect { case _: KnownAggregates => StateHeader.Function.Knowing }
    val texts = text.functions ++ tracking
    // Deduplicated rows are in one function, whatever the aggregates.
    Option.when(text.dedupe.isEmpty && texts.length == functions.length)(
      texts
        .zip(functions)
        .map { case (of, f) =>
          val types = f.aggBufferAttributes.map(_.dataType.sql + PaneSums.words(this, f))
          StateHeader.Function(s"$of ${f.dataType.sql}", types.toList)
        }
        .toList
    )
  }

  private[operator] def adaptation(was: OperatorHeader): StateAdaptation = was match {
    case one: StateHeader =>
      val change = WindowAdaptation(this, one, within = None)
      StateAdaptation(change.gone, Seq(change))
    case drain: DrainHeader =>
      val change = WindowAdaptation(this, drain.alone, within = None)
      val moves = (families.filterNot(_ == PartitionTotals.family) ++ change.gone)
        .map(family => TogetherWindow.named(DrainHeader.Next, family) -> family)
      StateAdaptation(change.gone ++ moves.map(_._1), Seq(change), moves)
    case other => throw new IllegalStateException(s"$describe cannot continue from ${other.describe}")
  }

  /** True if the slice of a row that is put aside is its time, which decides what kind of row it is. */
  def asideByTime: Boolean = isSession || maxAhead.isDefined

  def late: Seq[LateProgram] = lateRow
    .filter(_ => rows.isEmpty)
    .map { row =>
      def columns(firing: UTF8String) = LateOutput.columns(keys, results, row, pane.dataType, firing)
      LateProgram(None, lateKey, slice, isSession, columns(Firing.Late), columns(Firing.Ahead))
    }
    .toSeq

  def engine(clock: BatchClock, partition: StatePartition, counts: PaneCounts): PaneEngine = {
    val panes = engineOfPanes(clock, partition, counts)
    last.fold(panes)(new LastClosePanes(this, output, _, panes, partition))
  }

  /** The engine without values of previous closes. */
  private[program] def engineOfPanes(
      clock: BatchClock,
      partition: StatePartition,
      counts: PaneCounts
  ): PaneEngine = rules match {
    case _ if splits.isDefined  => new SplitPanes(this, rows.get, splits.get, Some(partition), counts)
    case _ if rows.isDefined    => new ArrivalPanes(this, rows.get, clock, Some(partition), counts)
    case sessions: SessionRules => new SessionPanes(this, sessions, clock, partition, counts)
    case aligned: AlignedRules if aligned.knowsKeys => new SlidingPanes(this, aligned, clock, partition, counts)
    case aligned: AlignedRules                      =>
      new TumblingPanes(this, aligned, Some(aligned), clock, partition, counts)
    case custom: CustomRules                => new TumblingPanes(this, custom, None, clock, partition, counts)
    case around: AroundRules                => new SlidingPanes(this, around, clock, partition, counts)
    case _: NumberedRules | _: OrderedRules => throw WindowProgram.needsRows(this)
  }
}

object WindowProgram {
  private def needsRows(program: WindowProgram) =
    new IllegalStateException(s"${program.rules.describe} has no partial aggregate")
}
