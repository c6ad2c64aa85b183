package org.apache.spark.sql.mullion.checkpoint.imports

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.Count
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.catalyst.util.{ArrayData, DateTimeUtils}
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.mullion.expressions.functions.{ApproxDistinct, KnownAggregates}
import org.apache.spark.sql.mullion.operator.program.WindowProgram
import org.apache.spark.sql.mullion.plan.build.analysis.CallText
import org.apache.spark.sql.mullion.plan.{Shown, WindowStrategy, WindowedAggregate, Windows, WindowsTogether}
import org.apache.spark.sql.mullion.state.header.StateChange
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.clock.PaneClock
import dev.mullion.windows.rules.{AlignedRules, CustomRules, LatePolicy, PaneRules, Refinements, SessionRules}
import dev.mullion.windows.spec.{AlignedWindow, SessionWindow, Setting, TimeMath, WindowSpec}

/** A window of Mullion that continues where one of Spark's own stopped. Its panes open like Spark's windows: they close
  * at their end, and have not fired. Other options of the query (lateness, early firings and so on) begin with its
  * first batch, as after a change of a query.
  *
  * @param program
  *   the operator without those options
  * @param keysAt
  *   for each key, its column in Spark's grouping
  * @param functionsAt
  *   for each function, the index of Spark's
  * @param ranges
  *   of custom windows, computes the ranges of a time
  */
private[checkpoint] final case class MovedWindow(
    program: WindowProgram,
    keysAt: Seq[Int],
    functionsAt: Seq[Int],
    ranges: Option[Expression]
) {
  private val fixedGap = program.rules match {
    case sessions: SessionRules => sessions.window.gap
    case _                      => None
  }

  @transient private lazy val bound = ranges.map { of =>
    of.transform { case _: Attribute => BoundReference(0, TimestampType, nullable = false) }
  }

  /** The columns of partial rows between keys and buffers. */
  def grouping(start: Expression, end: Expression): Seq[Expression] = {
    val slice = if (program.start.isDefined) end else start
    Seq(slice) ++ program.marked.map(_ => Literal(false)) ++ program.gap.map(_ => Subtract(end, start)) ++
      program.start.map(_ => start)
  }

  /** The columns after the buffers: for sessions the times of the first and last row, and the number of rows. */
  def extras(start: Expression, end: Expression): Seq[Expression] = {
    def time(micros: Expression) = PreciseTimestampConversion(micros, LongType, TimestampType)
    val last = fixedGap.fold(start)(gap => Subtract(end, Literal(gap)))
    val times = if (program.isSession) Seq(time(start), time(last)) else Nil
    // Only early firings use the number of rows, and they count from the first batch on.
    times ++ program.extras.collect { case _: Count => Literal(1L) }
  }

  /** Fails if a window in state is not one of these. */
  def require(start: Long, end: Long, checkpoint: String): Unit = {
    val isOne = program.rules match {
      case aligned: AlignedRules => aligned.window.lastStart(start) == start && aligned.window.end(start) == end
      case _: SessionRules       => TimeMath.minus(end, start) >= fixedGap.getOrElse(1L)
      case _: CustomRules        => bound.exists(rangesAt(_, start).contains((start, end)))
      case _                     => false
    }
    if (!isOne)
      throw MullionException.incompatibleState(
        s"The state in $checkpoint has a window [${MovedWindow.time(start)}, ${MovedWindow.time(end)}), and " +
          s"${program.rules.window.describe} has none there. Give ${Setting.Panes} the window that Spark's query has."
      )
  }

  private def rangesAt(ranges: Expression, time: Long): Seq[(Long, Long)] = ranges.eval(InternalRow(time)) match {
    case array: ArrayData =>
      (0 until array.numElements()).filterNot(array.isNullAt).map { i =>
        val range = array.getStruct(i, 2)
        range.getLong(0) -> range.getLong(1)
      }
    case _ => Nil
  }
}

private[checkpoint] object MovedWindow {

  def apply(was: SparkAggregate, panes: DataFrame): MovedWindow = {
    val node = nodeOf(panes)
    requireWindow(was, node)
    val plain = plainOf(node)
    MovedWindow(WindowStrategy.program(plain), keysOf(was, node), functionsOf(was, node), rangesOf(node))
  }

  private def time(at: Long): String = DateTimeUtils.microsToInstant(at).toString

  private def nodeOf(panes: DataFrame): WindowedAggregate =
    panes.queryExecution.analyzed.collect { case node @ Windows(_) => node } match {
      case Seq(one: WindowedAggregate) => one
      case Seq()                       =>
        throw MullionException.invalid(s"${Setting.Panes} is not a result of windowed(...).agg(...).")
      case Seq(_: WindowsTogether) =>
        throw unsupported(s"${Setting.Panes} has several windows in one query", "Move one window")
      case several => throw unsupported(s"${Setting.Panes} has ${several.length} windows", "Move the first one alone")
    }

  private def unsupported(what: String, fix: String) =
    MullionException.unsupported(s"$what, and Spark's own window becomes one window of Mullion's. $fix.")

  private def requireWindow(was: SparkAggregate, node: WindowedAggregate): Unit = {
    val (is, of) = (node.rules.window, was.window)
    def differs(fix: String) = MullionException.incompatibleState(
      s"The window in ${Setting.Panes} is ${is.describe}, and Spark's in ${Setting.SparkQuery} is ${of.describe}. $fix"
    )
    if (node.rows.isDefined || node.rules.onProcessingTime)
      throw differs(
        "The state of windows whose rows are processed one by one, or that are on processing time, is not that of Spark's windows."
      )
    (of, is) match {
      case (a: AlignedWindow, b: AlignedWindow) if a.overlaps && b.overlaps =>
        throw differs(
          "Spark stores each overlapping window separately, and Sliding stores slices that windows share: the content of a slice does not " +
            "follow from entire windows. Move them to Custom with the same ranges, which stores each window: " +
            "Custom(mullion.functions.windows(...)); or start a Sliding query with a new checkpointLocation."
        )
      case (a: AlignedWindow, b: AlignedWindow) if a == b                                       => ()
      case (_: AlignedWindow, _) if node.ranges.isDefined                                       => ()
      case (a: SessionWindow, b: SessionWindow) if a == b && was.gap == node.text.gap           => ()
      case (_: SessionWindow, _: SessionWindow) if was.gap.isDefined || node.text.gap.isDefined =>
        throw differs(
          s"The gaps are ${gapOf(of, was.gap)} and ${gapOf(is, node.text.gap)}: give ${Setting.Panes} that of ${Setting.SparkQuery}."
        )
      case _ =>
        throw differs(
          s"Give ${Setting.Panes} the window of ${Setting.SparkQuery}; change it after the move."
        )
    }
    val time = timeOf(node)
    if (!time.contains(was.time))
      throw MullionException.incompatibleState(
        s"The window in ${Setting.SparkQuery} is of ${was.time}, and ${Setting.named("time")} of ${Setting.Panes} is ${time.getOrElse("another")}. Name the same column."
      )
    val refinements = node.rules.refinements
    if (refinements.empty)
      throw begun(refinements.emptyOption, "which windows a key has had without rows is not recorded")
    if (refinements.atEnd)
      throw begun(Setting.CloseAtEnd, "Spark's query has no source that reports the end of the input")
    if (node.text.dedupe.nonEmpty) throw begun(Setting.DedupeBy, "which rows a window has counted is not recorded")
    if (node.functions.exists(_.isInstanceOf[KnownAggregates]))
      throw MullionException.unsupported(
        s"${Setting.Panes} has ${Setting.NewAggregatesFromNow}. Leave it out here, with the aggregates that ${Setting.SparkQuery} does not have; the query that starts " +
          "from the savepoint may have both."
      )
  }

  private def gapOf(window: WindowSpec, byRow: Option[String]) = byRow.getOrElse(window.describe)

  private def begun(option: Setting, why: String) = MullionException.unsupported(
    s"${Setting.Panes} has $option, which open windows of Spark cannot continue with: $why. Leave it out, or start the query with a new " +
      "checkpointLocation."
  )

  /** The window without options that may change while a query has state. */
  private def plainOf(node: WindowedAggregate): WindowedAggregate = {
    val rules = PaneRules(
      node.rules.window,
      allowedLateness = 0L,
      early = None,
      LatePolicy.Drop,
      Refinements.none.copy(ids = node.rules.refinements.ids),
      PaneClock.EventTime
    )
    node.copy(terms = node.terms.copy(rules = rules, idleAfter = None, maxAhead = None, ticks = false))
  }

  private def keysOf(was: SparkAggregate, node: WindowedAggregate): Seq[Int] = {
    val (before, now) = (was.keys.map(_._2), node.text.keys)
    val order = StateChange.keyOrder(now.toList, before.toList).getOrElse {
      throw MullionException.incompatibleState(
        s"Keys in ${Setting.SparkQuery} are [${before.mkString(", ")}], and ${Setting.By} of ${Setting.Panes} has [${now.mkString(", ")}]. Give both the same."
      )
    }
    val at = order.map(was.keys(_)._1)
    at.zip(node.keys).foreach { case (i, key) =>
      if (!DataType.equalsIgnoreNullability(was.grouping(i), key.dataType))
        throw MullionException.incompatibleState(
          s"The key ${key.name} is ${was.grouping(i).sql} in ${Setting.SparkQuery}, and ${key.dataType.sql} in ${Setting.Panes}. Give both one type."
        )
    }
    at
  }

  private def functionsOf(was: SparkAggregate, node: WindowedAggregate): Seq[Int] =
    node.text.functions.zip(node.functions).map { case (text, function) =>
      val at = was.functions.indexWhere(_.text.contains(text))
      if (at < 0) {
        val recorded = was.functions.map(_.text.getOrElse("one that Spark has rewritten")).mkString(", ")
        throw MullionException.incompatibleState(
          s"The aggregate $text in ${Setting.Panes} is none of ${Setting.SparkQuery}, whose state has [$recorded]. Leave it out of ${Setting.Panes}; the query that " +
            s"starts from the savepoint may have it, with ${Setting.NewAggregatesFromNow}."
        )
      }
      val (is, of) = (was.functions(at).buffers.map(_.dataType), ApproxDistinct.sparkBuffers(function))
      if (is.length != of.length || !is.zip(of).forall { case (a, b) => DataType.equalsIgnoreNullability(a, b) })
        throw MullionException.incompatibleState(
          s"Spark keeps $text as [${is.map(_.sql).mkString(", ")}], and Mullion as [${of.map(_.sql).mkString(", ")}]: it " +
            s"cannot be carried over. Leave it out of ${Setting.Panes}; the query that starts from the savepoint may have it, with " +
            s"${Setting.NewAggregatesFromNow}."
        )
      at
    }

  private def computed(node: WindowedAggregate, column: Attribute): Option[Expression] = node.collectFirst {
    case Project(columns, _) if columns.exists(_.exprId == column.exprId) =>
      Shown.unalias(columns.find(_.exprId == column.exprId).get)
  }

  private def timeOf(node: WindowedAggregate): Option[String] = computed(node, node.time).map(CallText.sqlOf)

  /** The ranges of custom windows, over the time of a row alone, so that Spark's windows can be checked against them.
    */
  private def rangesOf(node: WindowedAggregate): Option[Expression] = node.ranges.flatMap(computed(node, _)).map { of =>
    val time = computed(node, node.time)
    val over = of.collect { case a: Attribute => a }.distinctBy(_.exprId)
    val isOfTime = over.nonEmpty && over.forall(a => time.exists(_.semanticEquals(a)))
    if (!isOfTime || of.exists(e => !e.isInstanceOf[Attribute] && e.isInstanceOf[Unevaluable]))
      throw MullionException.unsupported(
        s"The ranges ${CallText.sqlOf(of)} are not computed in SQL from the time alone, so they cannot be compared with " +
          "Spark's windows. Give Custom(mullion.functions.windows(...)) of the time."
      )
    of
  }
}
