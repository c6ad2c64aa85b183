package org.apache.spark.sql.mullion.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.mullion.operator.WindowExec
import org.apache.spark.sql.mullion.operator.assign.{
  AssignTogetherExec,
  AssignedWindow,
  FusedWatermarkExec,
  OneTaskExec,
  PutAsideLateRowsExec,
  StampTimeExec,
  TakeUpLateRowsExec
}
import org.apache.spark.sql.mullion.operator.bounded.AggregateExecs
import org.apache.spark.sql.mullion.operator.engine.LateProgram
import org.apache.spark.sql.mullion.operator.engine.output.{Firing, LateOutput, PaneNames}
import org.apache.spark.sql.mullion.operator.partial.{AddRowsExec, PartialAggregates}
import org.apache.spark.sql.mullion.operator.program.{TogetherProgram, TogetherWindow, WindowProgram}
import org.apache.spark.sql.types.{BooleanType, IntegerType, LongType}
import org.apache.spark.unsafe.types.UTF8String

/** Plans [[WindowsTogether]]: one chain for all windows, with one partial aggregate and one shuffle.
  *
  * {{{
  *   WindowExec - merge - [shuffle by key] - partial aggregate by window and slice - AssignTogether - child
  * }}}
  *
  * A partial row belongs to one window, and has the accumulators of all: shared functions are computed once, and the
  * others are filtered by the window's number.
  */
final class TogetherPlan private (node: WindowsTogether) {
  private val parts = node.parts
  private val programs = parts.map(WindowStrategy.program)

  private val number = AttributeReference("window_number", IntegerType, nullable = false)()
  private val slice = AttributeReference("slice", LongType, nullable = false)()
  private val marked = any(_.marked, AttributeReference("marked", BooleanType, nullable = false)())
  private val gap = any(_.gap, AttributeReference("gap", LongType)())
  private val start = any(_.start, AttributeReference("start", LongType, nullable = false)())

  private def any(of: WindowProgram => Option[Attribute], column: Attribute): Option[Attribute] =
    Option.when(programs.exists(of(_).isDefined))(column)

  // Equal keys are one column of the child.
  private val keysFrom: Seq[Attribute] = parts.flatMap(_.keys).distinctBy(_.exprId)
  private val keys: Seq[Attribute] = keysFrom.map(k => AttributeReference(k.name, k.dataType)())
  private val agree = parts.forall(part => keysFrom.forall(has(part, _)))
  private val shuffledBy = if (agree) keys else number +: keys

  private def has(part: WindowedAggregate, key: Attribute): Boolean = part.keys.exists(_.exprId == key.exprId)

  private def sharedKey(key: Attribute): Attribute = keys(keysFrom.indexWhere(_.exprId == key.exprId))

  private val shared: Seq[SharedFunction] = {
    val all = for {
      (part, program) <- parts.zip(programs)
      extras = program.extras.map(_ -> Literal.TrueLiteral)
      (function, filter) <- part.functions.zip(part.filters) ++ extras
    } yield SharedFunction(function, filter)
    all.foldLeft(Vector.empty[SharedFunction]) { (known, next) =>
      if (known.exists(_.isSame(next))) known else known :+ next
    }
  }

  private def sharedOf(function: AggregateFunction, filter: Expression): SharedFunction =
    shared.find(_.isSame(SharedFunction(function, filter))).get

  private def functionsOf(window: Int): Seq[(AggregateFunction, SharedFunction)] =
    parts(window).functions.zip(parts(window).filters).map { case (f, filter) => f -> sharedOf(f, filter) } ++
      programs(window).extras.map(f => f -> sharedOf(f, Literal.TrueLiteral))

  private val grouping: Seq[Attribute] = ((number +: keys) :+ slice) ++ marked ++ gap ++ start

  private val partial: Seq[Attribute] = grouping ++ shared.flatMap(_.function.inputAggBufferAttributes)

  val program: TogetherProgram = TogetherProgram(
    id = s"together-${slice.exprId.id}",
    node.windows.zipWithIndex.map { case (window, i) => together(window.name, i) },
    number,
    shuffledBy,
    partial,
    node.output,
    node.pane,
    node.lateRow,
    node.drain,
    node.places
  )

  private def together(name: String, window: Int): TogetherWindow = {
    val own = programs(window)
    val narrow =
      own.keys.map(sharedKey) ++ Seq(slice) ++ own.marked.flatMap(_ => marked) ++ own.gap.flatMap(_ => gap) ++
        own.start.flatMap(_ => start) ++ functionsOf(window).flatMap(_._2.function.inputAggBufferAttributes)
    val widen = widened(name, window)
    val late = own.lateRow.flatMap(_ => node.lateRow).map { lateRow =>
      def columns(firing: UTF8String) = {
        val narrow = LateOutput.columns(own.keys.map(sharedKey), own.results, lateRow, own.pane.dataType, firing)
        val columnOf = own.output.map(_.exprId).zip(narrow).toMap
        widen.map(_.transform { case a: Attribute if columnOf.contains(a.exprId) => columnOf(a.exprId) })
      }
      LateProgram(
        Some(number -> window),
        own.keys.map(sharedKey) ++ Seq(slice) ++ own.gap.flatMap(_ => gap),
        slice,
        own.isSession,
        columns(Firing.Late),
        columns(Firing.Ahead)
      )
    }
    TogetherWindow(name, own, narrow, widen, late, node.places.fold(name)(_.of(name)))
  }

  /** The columns of the node, over those of one window. */
  private def widened(name: String, window: Int): Seq[Expression] = {
    val part = parts(window)
    def none(column: Attribute): Expression = Literal(None.orNull, column.dataType)
    val keyColumns = node.keys.map { key =>
      part.keys.find(_.exprId == key.exprId).orElse(part.keys.find(_.name == key.name)).getOrElse(none(key))
    }
    val results = node.columns.zip(node.resultsAt(window)).map { case (column, at) =>
      if (at < 0) none(column) else part.resultColumns(at)
    }
    (Literal(name) +: keyColumns :+ part.window :+ part.pane) ++ results ++ node.lateRow.map(r =>
      part.lateRow.getOrElse(none(r))
    )
  }

  def plan(planLater: LogicalPlan => SparkPlan): SparkPlan = {
    DroppedBefore.log(node.child)
    node.parts.foreach(RunWarnings.logUpdateMode)
    val first = parts.head
    val child = planLater(FusedWatermarkExec.below(node.child))
    val timed = if (first.rules.onProcessingTime) StampTimeExec(program.id, first.time, now = None, child) else child
    val assigned = parts.zip(programs).zipWithIndex.map { case ((part, own), i) =>
      AssignedWindow(
        part.rules,
        part.time,
        part.gap,
        part.ranges,
        own.marked.isDefined,
        keysFrom.map(has(part, _)),
        from = node.drain.filter(_ => i > 0).map(_.boundary),
        until = node.drain.filter(_ => i == 0).map(_.boundary)
      )
    }
    val assign = AssignTogetherExec(
      program.id,
      assigned,
      number,
      keys,
      keysFrom,
      slice,
      marked,
      gap,
      start,
      before = None,
      ahead = None,
      timed
    )
    val aggregated = PartialAggregates(
      isStreaming = true,
      grouping,
      shared.map(s => s.expression(usedBy(s), number)),
      partial.drop(grouping.length),
      assign
    )
    // A group may be of several windows.
    val (named, columns) = (keys, aggregated.output)
    val added =
      AddRowsExec.over(aggregated, shared.map(_.function), row => s"A pane${PaneNames.ofKey(named, columns, row)}")
    val aside = node.lateRow.fold(OneTaskExec.ifOnePartition(added))(lateRows(_, timed, added))
    val merged = AggregateExecs(
      PartialMerge,
      Some(shuffledBy),
      isStreaming = true,
      grouping,
      shared.map(_.expression(None, number)),
      partial.map(_.asInstanceOf[NamedExpression]),
      aside
    )
    WindowExec(program, merged)
  }

  /** The numbers of the windows that have a function, if not all have. */
  private def usedBy(function: SharedFunction): Option[Seq[Int]] = {
    val of = parts.indices.filter(functionsOf(_).exists(_._2 eq function))
    Option.when(of.length < parts.length)(of)
  }

  private def lateRows(lateRow: Attribute, input: SparkPlan, aggregated: SparkPlan): SparkPlan = {
    val emitting = parts.zipWithIndex.filter(_._1.lateRow.isDefined)
    def byWindow(column: Attribute)(of: WindowedAggregate => Option[Expression]): (Attribute, Expression) = {
      val branches = emitting.flatMap { case (part, i) =>
        of(part).map(value => (EqualTo(number, Literal(i)): Expression) -> value)
      }
      column -> (if (branches.isEmpty) Literal(None.orNull, column.dataType) else CaseWhen(branches, None))
    }
    def isSession(part: WindowedAggregate) = programs(parts.indexOf(part)).isSession
    def asideByTime(part: WindowedAggregate) = programs(parts.indexOf(part)).asideByTime
    val columnsForLate = Seq[(Attribute, Expression)](number -> number) ++
      keysFrom.zip(keys).map { case (from, key) => byWindow(key)(part => Option.when(has(part, from))(from)) } ++
      Seq(byWindow(slice)(part => Option.when(asideByTime(part))(part.time))) ++
      gap.map(byWindow(_)(part => part.gap.filter(_ => isSession(part))))
    val lateColumns = emitting.head._1.lateColumns
    val withLateRows =
      TakeUpLateRowsExec(program.id, input.output :+ number, lateColumns, lateRow, columnsForLate, aggregated)
    val gathered = OneTaskExec.ifOnePartition(withLateRows)
    PutAsideLateRowsExec(WindowExec.shuffled(program.id), program.distributed, lateRow, partitions = None, gathered)
  }
}

object TogetherPlan {
  def apply(node: WindowsTogether): TogetherPlan = new TogetherPlan(node)
}

/** An aggregate function of one or several windows. */
private final case class SharedFunction(function: AggregateFunction, filter: Expression) {
  def isSame(other: SharedFunction): Boolean =
    (this eq other) || (function.canonicalized == other.function.canonicalized && filter.semanticEquals(other.filter) &&
      function.deterministic && filter.deterministic)

  /** @param windows
    *   whose rows it aggregates; none for those of all
    */
  def expression(windows: Option[Seq[Int]], number: Attribute): AggregateExpression = {
    val own = Option.when(filter != Literal.TrueLiteral)(filter)
    val inWindows = windows.map(of => In(number, of.map(Literal(_))): Expression)
    AggregateExpression(function, Complete, isDistinct = false, (inWindows ++ own).reduceOption(And(_, _)))
  }
}
