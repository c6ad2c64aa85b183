package org.apache.spark.sql.mullion.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan, SparkStrategy}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.expressions.columns.WindowEdge
import org.apache.spark.sql.mullion.expressions.functions.AccumulatorLimit
import org.apache.spark.sql.mullion.expressions.rows.{ArrivalNumber, CollectRows}
import org.apache.spark.sql.mullion.operator.WindowExec
import org.apache.spark.sql.mullion.operator.assign.{
  AssignRangesExec,
  AssignSlicesExec,
  FusedWatermark,
  FusedWatermarkExec,
  OneTaskExec,
  PutAsideLateRowsExec,
  StampTimeExec,
  TakeUpLateRowsExec
}
import org.apache.spark.sql.mullion.operator.bounded.{
  AggregateExecs,
  ArrivalBatchExec,
  EmptyWindowsExec,
  LastCloseExec,
  MergeSessionsExec,
  RowsToWindowsExec,
  SlicesToOpenWindowsExec,
  SlicesToWindowsExec
}
import org.apache.spark.sql.mullion.operator.engine.output.PaneNames
import org.apache.spark.sql.mullion.operator.engine.{RowProgram, Splitting}
import org.apache.spark.sql.mullion.operator.partial.{AddRowsExec, PartialAggregates}
import org.apache.spark.sql.mullion.operator.program.WindowProgram
import org.apache.spark.sql.mullion.pyfunction.branch.{BranchExec, ProcessedRows}
import org.apache.spark.sql.types.{ArrayType, BooleanType, LongType, StringType, TimestampType}

import dev.mullion.windows.rules.{
  AlignedRules,
  AroundRules,
  CustomRules,
  NumberedRules,
  OrderedRules,
  SessionRules,
  SlicedRules
}

/** Plans [[WindowedAggregate]].
  *
  * {{{
  *   stream   WindowExec - [sort by key] - [shuffle by key] - partial aggregate by slice - AssignSlices - child
  *            (state in one partition: OneTask in place of the shuffle, which is none where the child has one partition)
  *   batch    final aggregate - [shuffle by window] - SlicesToWindows - partial aggregate by slice - AssignSlices - child
  *            (sessions: final aggregate - MergeSessions - [shuffle by key] - partial aggregate by slice - AssignSlices)
  *            (custom: final aggregate - [shuffle by window] - partial aggregate by range - AssignRanges - child)
  *   rows one by one
  *   stream   WindowExec - [sort by key (, time), arrival] - [shuffle by key] - Project arrival - child
  *   batch    ArrivalBatch - [sort by key (, time), arrival] - [shuffle by key] - Project arrival - child, for windows of row
  *            numbers and those that depend on the order of rows
  * }}}
  */
object WindowStrategy extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = Windows.languageOf(plan)(planned(plan))

  private def planned(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case node: WindowsTogether                                              => Seq(TogetherPlan(node).plan(planLater))
    case node: WindowedAggregate if node.isStreaming && node.rows.isDefined => Seq(planRows(node))
    case node: WindowedAggregate if node.isStreaming                        => Seq(planStream(node))
    case node: WindowedAggregate if isRowByRow(node)                        => Seq(planRowByRow(node))
    case node: WindowedAggregate                                            => Seq(planBatch(numbered(node)))
    case join: StreamAsOfJoin                                               => Seq(AsOfPlan(join, planLater))
    case FusedWatermark(node, child)                                        =>
      Seq(new FusedWatermarkExec(node.nodeId, node.eventTime, node.delay, planLater(child)))
    case _ => Nil
  }

  /** The program of a node's operator. */
  def program(node: WindowedAggregate): WindowProgram = {
    val slice = AttributeReference("slice", LongType, nullable = false)()
    val marked = Option.when(node.rules.late.reopens || node.rules.isInstanceOf[SessionRules])(
      AttributeReference("marked", BooleanType, nullable = false)()
    )
    // Buffered rows are read by their time alone, without the expression that computed it.
    val functions = if (node.split.isEmpty) node.functions else node.functions.map(timedBy(_, node.time))
    WindowProgram(
      id = s"window-${slice.exprId.id}",
      node.keys,
      slice,
      marked,
      node.gap,
      node.ranges.map(_ => AttributeReference("start", LongType, nullable = false)()),
      node.time,
      functions,
      node.functionResults,
      node.namedResults,
      node.window,
      node.pane,
      node.lateRow,
      node.rules,
      node.idleAfter,
      node.maxAhead,
      node.text,
      AccumulatorLimit.of(SQLConf.get),
      node.rows.map { asked =>
        val arrival = AttributeReference("arrival", LongType, nullable = false)()
        val stamped = if (node.rules.onProcessingTime) node.child.output :+ node.time else node.child.output
        val input = stamped :+ arrival
        val splits = node.split.map { by =>
          // In the order of their occurrence, which is stable in unoptimized plans.
          val read = (functions ++ node.filters).flatMap(_.collect { case a: Attribute => a })
          Splitting(node.splitColumns, (node.splitColumns ++ read).distinctBy(_.exprId), by, asker = None)
        }
        RowProgram(
          asked,
          input,
          arrival,
          node.time,
          node.gap,
          node.filters,
          node.trigger,
          node.lateColumns,
          splits,
          node.closesWhen
        )
      },
      ProcessedRows.areIn(node.child),
      functions.zip(node.filters).collectFirst {
        case (count: Count, Literal.TrueLiteral) if !count.children.exists(_.nullable) =>
          count.inputAggBufferAttributes.head
      },
      node.getTagValue(WindowsTogether.alone),
      node.terms.ticks,
      node.terms.drained,
      node.terms.delay,
      node.terms.language,
      node.terms.last,
      node.terms.knownKeys
    )
  }

  /** A function that needs the time of rows reads it from their time column. */
  private def timedBy(function: AggregateFunction, time: Attribute): AggregateFunction = function
    .transform { case rows: CollectRows =>
      rows.copy(time = if (rows.collected.byTime) time else Literal(None.orNull, TimestampType))
    }
    .asInstanceOf[AggregateFunction]

  /** For row-by-row processing in order of arrival. */
  private def planRows(node: WindowedAggregate): SparkPlan = {
    DroppedBefore.log(node.child)
    RunWarnings.logUpdateMode(node)
    val program = WindowStrategy.program(node)
    operator(program, gathered(program, arriving(node, program)))
  }

  private def operator(program: WindowProgram, rows: SparkPlan): SparkPlan =
    if (program.byShard) BranchExec(program, batch = None, rows) else WindowExec(program, rows)

  /** For one state partition, its rows are in one task. Between stages they are already distributed. */
  private def gathered(program: WindowProgram, rows: SparkPlan): SparkPlan =
    if (program.byShard) rows else OneTaskExec.ifOnePartition(rows)

  /** The rows of a node with their order of arrival, which a shuffle would lose: a retried batch must process them in
    * the same order.
    */
  private def arriving(node: WindowedAggregate, program: WindowProgram): SparkPlan = {
    val arrival = program.rows.map(rows => Alias(MonotonicallyIncreasingID(), rows.arrival.name)(rows.arrival.exprId))
    val rows = if (node.isStreaming) timed(node, program) else planLater(node.child)
    ProjectExec(rows.output ++ arrival, rows)
  }

  /** The rows of a node, with the time of their batch if they have no event time. */
  private def timed(node: WindowedAggregate, program: WindowProgram): SparkPlan = {
    // Between stages of a task, windows read their clocks during the task: that requires Spark's watermark node, which
    // updates row by row.
    val rows = planLater(if (program.byShard) node.child else FusedWatermarkExec.below(node.child))
    if (node.rules.onProcessingTime) StampTimeExec(program.id, node.time, now = None, rows) else rows
  }

  /** True if the windows of a batch DataFrame are found row by row too. */
  private def isRowByRow(node: WindowedAggregate): Boolean = node.rules match {
    case _: NumberedRules | _: OrderedRules => true
    case _                                  => false
  }

  private def planRowByRow(node: WindowedAggregate): SparkPlan = {
    val program = WindowStrategy.program(node)
    // A batch only returns the closes of a stream's firings.
    val closes = program.copy(
      rules = program.rules match {
        case ordered: OrderedRules => ordered.onBatch
        case other                 => other
      },
      rows = program.rows.map(r => r.copy(byRow = r.byRow.onBatch))
    )
    withLast(node, ArrivalBatchExec(closes, arriving(node, closes)))
  }

  private def withLast(node: WindowedAggregate, closes: SparkPlan): SparkPlan = node.terms.last.fold(closes) {
    LastCloseExec(node.keys, node.window, node.results.length, _, closes)
  }

  /** A node over windows of time on a batch DataFrame: collected rows get their order from a column. */
  private def numbered(node: WindowedAggregate): WindowedAggregate =
    if (!node.rows.exists(_.collect.isDefined)) node
    else {
      val arrival = Alias(MonotonicallyIncreasingID(), "arrival")()
      val functions = node.functions.map(_.transform { case ArrivalNumber() =>
        arrival.toAttribute
      }.asInstanceOf[AggregateFunction])
      node.copy(functions = functions, child = Project(node.child.output :+ arrival, node.child))
    }

  private def planStream(node: WindowedAggregate): SparkPlan = {
    DroppedBefore.log(node.child)
    RunWarnings.logUpdateMode(node)
    val program = WindowStrategy.program(node)
    val assign = assigner(program, node, program.marked, timed(node, program))
    val aggregated = PartialAggregates(
      isStreaming = true,
      program.grouping,
      expressions(node) ++ extras(program),
      program.partial.drop(program.grouping.length),
      assign
    )
    val columns = aggregated.output
    val partial = AddRowsExec.over(aggregated, node.functions, row => PaneNames.ofPartial(program, columns, row))
    val aside = node.lateRow.fold(gathered(program, partial)) { lateRow =>
      val keys = (node.keys ++ node.gap.filter(_ => program.isSession)).map(k => k -> k)
      val columnsForLate = keys ++ Option.when(program.asideByTime)(program.slice -> node.time)
      val taken = TakeUpLateRowsExec(program.id, node.child.output, node.lateColumns, lateRow, columnsForLate, partial)
      // The node's two pairs may run in one task, if the child is already partitioned by key.
      PutAsideLateRowsExec(
        WindowExec.shuffled(program.id),
        program.distributed,
        lateRow,
        partitions = None,
        gathered(program, taken)
      )
    }
    val opened = node.rules match {
      case rules: AlignedRules if rules.keepsApart =>
        SlicesToOpenWindowsExec(
          program.id,
          program.distributed,
          program.slice,
          program.marked,
          rules,
          None,
          None,
          aside
        )
      case _ => aside
    }
    val merged =
      if (program.takesSeveralOfGroup || program.mergesGroups) opened
      else
        AggregateExecs(
          PartialMerge,
          distribution = program.distributed,
          isStreaming = true,
          program.grouping,
          expressions(node) ++ extras(program),
          program.partial.map(_.asInstanceOf[NamedExpression]),
          opened
        )
    operator(program, merged)
  }

  private def planBatch(node: WindowedAggregate): SparkPlan = {
    val program = WindowStrategy.program(node)
    val slice = program.slice
    val start = program.start.getOrElse(AttributeReference("start", LongType, nullable = false)())
    val assign = assigner(program, node, marked = None, planLater(node.child))
    val grouping = (node.keys :+ slice) ++ node.gap ++ program.start
    val wanted = expressions(node) ++ extras(program)
    val aggregated = PartialAggregates(
      isStreaming = false,
      grouping,
      wanted,
      buffersOf(wanted.map(_.aggregateFunction)),
      assign
    )
    val columns = aggregated.output
    val partial = AddRowsExec.over(aggregated, node.functions, row => PaneNames.ofPartial(program, columns, row))
    val windows = node.rules match {
      case aligned: AlignedRules =>
        val filled =
          if (aligned.refinements.empty)
            EmptyWindowsExec(node.keys, slice, aligned, wanted.map(_.aggregateFunction), partial)
          else partial
        SlicesToWindowsExec(slice, start, aligned, filled)
      case sessions: SessionRules =>
        MergeSessionsExec(node.keys, slice, node.gap, buffersOf(program.extras), start, sessions, partial)
      case around: AroundRules                          => RowsToWindowsExec(node.keys, slice, start, around, partial)
      case _: CustomRules                               => partial
      case other @ (_: NumberedRules | _: OrderedRules) =>
        throw new IllegalStateException(s"${other.describe} has no slices of time")
    }
    val pane = (node.keys :+ start) ++ program.start.map(_ => slice)
    val complete = AggregateExecs(
      Final,
      distribution = Some(pane),
      isStreaming = false,
      pane,
      wanted,
      pane ++ wanted.map(_.resultAttribute),
      windows
    )
    def edge(rules: SlicedRules, isEnd: Boolean) =
      PreciseTimestampConversion(WindowEdge(start, rules, isEnd), LongType, TimestampType)
    val end = node.rules match {
      case sliced: SlicedRules => edge(sliced, isEnd = true)
      // MergeSessions replaced the last time by the end.
      case _: CustomRules => PreciseTimestampConversion(slice, LongType, TimestampType)
      case _              => wanted(node.functions.length + 1).resultAttribute
    }
    val begin = node.rules match {
      case sliced: SlicedRules => edge(sliced, isEnd = false)
      case _                   => PreciseTimestampConversion(start, LongType, TimestampType)
    }
    withLast(node, ProjectExec(closes(node, begin, end), complete))
  }

  /** The node that determines the panes of a row. */
  private def assigner(
      program: WindowProgram,
      node: WindowedAggregate,
      marked: Option[Attribute],
      child: SparkPlan
  ): SparkPlan = (node.rules, node.ranges, program.start) match {
    case (custom: CustomRules, Some(ranges), Some(start)) =>
      AssignRangesExec(program.id, node.time, ranges, program.slice, start, marked, custom, None, None, child)
    case (rules, _, _) =>
      AssignSlicesExec(program.id, node.time, program.slice, marked, node.gap, rules, None, None, child)
  }

  private def buffersOf(functions: Seq[AggregateFunction]): Seq[Attribute] =
    functions.flatMap(_.inputAggBufferAttributes)

  /** The output columns of a batch DataFrame, where every pane has closed and no row was late. */
  private def closes(node: WindowedAggregate, start: Expression, end: Expression): Seq[NamedExpression] = {
    val window = CreateNamedStruct(
      Seq(
        Literal("start"),
        start,
        Literal("end"),
        end
      )
    )
    def micros(time: Expression) = PreciseTimestampConversion(time, TimestampType, LongType)
    def text(time: Expression) = Cast(micros(time), StringType)
    val byRange = Concat(Seq(text(start), Literal("/"), text(end)))
    val id = node.rules match {
      case rules if rules.window.sharesStarts => byRange
      case _: SessionRules                    => text(start)
      case _ => If(EqualTo(micros(start), Literal(Long.MinValue)), byRange, text(start))
    }
    val named =
      if (!node.rules.refinements.ids) Nil
      else Seq(Literal("id"), id, Literal("merged"), Literal.create(Seq.empty[String], ArrayType(StringType, false)))
    val pane = CreateNamedStruct(Seq(Literal("firing"), Literal("close"), Literal("seq"), Literal(0)) ++ named)
    (node.keys :+ Alias(window, node.window.name)(node.window.exprId) :+ Alias(pane, node.pane.name)(
      node.pane.exprId
    )) ++
      node.namedResults ++
      node.lateRow.map(l => Alias(Literal(None.orNull, l.dataType), l.name)(l.exprId))
  }

  private[mullion] def expressions(node: WindowedAggregate): Seq[AggregateExpression] =
    node.functions.zip(node.filters).zip(node.functionResults).map { case ((function, filter), result) =>
      val condition = Option.when(filter != Literal.TrueLiteral)(filter)
      AggregateExpression(function, Complete, isDistinct = false, condition, result.exprId)
    }

  private def extras(program: WindowProgram): Seq[AggregateExpression] =
    program.extras.map(AggregateExpression(_, Complete, isDistinct = false))
}
