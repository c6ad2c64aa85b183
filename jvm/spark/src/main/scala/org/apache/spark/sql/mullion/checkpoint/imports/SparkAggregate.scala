package org.apache.spark.sql.mullion.checkpoint.imports

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.planning.PhysicalAggregation
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.mullion.expressions.columns.SessionGap
import org.apache.spark.sql.mullion.plan.Shown
import org.apache.spark.sql.mullion.plan.build.analysis.{AnalysedCall, CallText}
import org.apache.spark.sql.types.{CalendarIntervalType, DataType, LongType, StructField}
import org.apache.spark.unsafe.types.CalendarInterval

import dev.mullion.MullionException
import dev.mullion.windows.spec.{AlignedWindow, SessionWindow => Sessions, Setting, WindowSpec}

/** An aggregation over Spark's own windows, derived from its DataFrame: the functions, and their columns in state.
  * State itself only contains types.
  *
  * @param window
  *   the window
  * @param time
  *   its event time, as SQL
  * @param gap
  *   the gap of sessions as SQL, where each row has its own
  * @param windowAt
  *   its column in the grouping
  * @param grouping
  *   the columns of the grouping, by their types
  * @param keys
  *   the other grouping columns, as SQL with their names, by their index
  * @param functions
  *   the aggregate functions, in the order of state
  */
private[checkpoint] final case class SparkAggregate(
    window: WindowSpec,
    time: String,
    gap: Option[String],
    windowAt: Int,
    grouping: Seq[DataType],
    keys: Seq[(Int, String)],
    functions: Seq[SparkAggregate.Function]
) {

  /** The state columns of a group. */
  def buffers: Seq[StructField] = functions.flatMap(_.buffers)
}

private[checkpoint] object SparkAggregate {

  /** @param text
    *   as SQL; none if the optimizer has rewritten it
    * @param buffers
    *   its columns in state
    */
  final case class Function(text: Option[String], buffers: Seq[StructField])

  def of(was: DataFrame): SparkAggregate = {
    val analysed = was.queryExecution.analyzed
    val aggregate = only(analysed)
    val (grouping, physical) = planned(was)
    if (grouping.length != aggregate.groupingExpressions.length)
      throw MullionException.unsupported(
        s"Spark keeps ${grouping.length} of the ${aggregate.groupingExpressions.length} columns that ${Setting.SparkQuery} groups by: " +
          "the others are constants. Leave them out of both queries."
      )
    val windowAt = aggregate.groupingExpressions.indexWhere(isWindow)
    if (windowAt < 0)
      throw MullionException.invalid(
        s"${Setting.SparkQuery} is grouped by no window(...) or session_window(...) of Spark's. Pass the DataFrame that wrote the checkpoint."
      )
    val (start, end) = edges(aggregate, aggregate.groupingExpressions(windowAt))
    val (window, gap) = windowOf(start, end)
    val texts = AnalysedCall
      .spelledOut(aggregate)
      .expressions
      .flatMap(_.collect { case e: AggregateExpression => e.resultId -> CallText.sqlOf(e) })
      .toMap
    SparkAggregate(
      window,
      timeOf(start),
      gap,
      windowAt,
      grouping.map(_.dataType),
      aggregate.groupingExpressions.zipWithIndex.collect {
        case (key: NamedExpression, at) if at != windowAt =>
          at -> s"${CallText.sqlOf(Shown.unalias(key))} AS ${quoteIfNeeded(key.name)}"
        case (key, at) if at != windowAt => at -> s"${CallText.sqlOf(key)} AS key"
      },
      physical.map { e =>
        Function(
          texts.get(e.resultId),
          e.aggregateFunction.inputAggBufferAttributes.map(a => StructField(a.name, a.dataType))
        )
      }
    )
  }

  private def only(plan: LogicalPlan): Aggregate = plan.collect { case a: Aggregate => a } match {
    case Seq(one) if one.isStreaming => one
    case Seq(_)                      =>
      throw MullionException.invalid(
        s"${Setting.SparkQuery} is a batch DataFrame. Pass the one whose query wrote the checkpoint."
      )
    case several =>
      throw MullionException.unsupported(
        s"${Setting.SparkQuery} has ${several.length} aggregations, and must have one, over window(...) or session_window(...)."
      )
  }

  /** The grouping and the aggregate functions as planned by Spark, in the order of state. */
  private def planned(was: DataFrame): (Seq[NamedExpression], Seq[AggregateExpression]) = {
    val optimized = was.sparkSession.sessionState.optimizer.execute(was.queryExecution.analyzed.clone())
    only(optimized) match {
      case PhysicalAggregation(grouping, expressions, _, _) => (grouping, expressions)
      case other => throw new IllegalStateException(s"not an aggregation: ${other.nodeName}")
    }
  }

  private def isWindow(e: Expression): Boolean = e match {
    case named: NamedExpression =>
      named.metadata.contains(TimeWindow.marker) || named.metadata.contains(SessionWindow.marker)
    case _ => false
  }

  /** The expression of a column, in the plan below. */
  private def definition(aggregate: Aggregate, column: Expression): Seq[Expression] = {
    def of(id: ExprId): Seq[Expression] = aggregate.child.collect {
      case Project(columns, _)            => columns.collect { case alias: Alias if alias.exprId == id => alias.child }
      case Expand(projections, output, _) =>
        val at = output.indexWhere(_.exprId == id)
        if (at < 0) Nil else projections.map(p => Shown.unalias(p(at)))
    }.flatten
    Shown.unalias(column) match {
      case a: Attribute =>
        of(a.exprId) match {
          case Seq(other: Attribute) if other.exprId != a.exprId => definition(aggregate, other)
          case found                                             => found
        }
      case other => Seq(other)
    }
  }

  /** The expressions of a window's start and end. */
  private def edges(aggregate: Aggregate, window: Expression): (Expression, Expression) =
    definition(aggregate, window).headOption match {
      case Some(CreateNamedStruct(Seq(_, start, _, end))) => start -> end
      case _                                              => throw unread(window)
    }

  private def unread(window: Expression) = MullionException.unsupported(
    s"How ${Setting.SparkQuery} computes ${CallText.sqlOf(window)} cannot be read. Group by window(...) or session_window(...) itself."
  )

  /** The time of a window, in microseconds after Spark's analysis. */
  private def timeOf(start: Expression): String = start
    .collect { case PreciseTimestampConversion(time, _, LongType) => time }
    .lastOption
    .fold(throw unread(start))(CallText.sqlOf)

  /** {{{
    *   remainder = (time - startTime) % slide
    *   start     = time - (remainder, or remainder + slide) - i * slide
    *   end       = start + size            of sessions: time + gap
    * }}}
    */
  private def windowOf(start: Expression, end: Expression): (WindowSpec, Option[String]) = {
    val grid = for {
      (offset, slide) <- start.collectFirst {
        case Remainder(Subtract(_, Literal(offset: Long, _), _), Literal(slide: Long, _), _) => (offset, slide)
      }
      size <- end.collectFirst { case Add(_, Literal(size: Long, LongType), _) => size }
    } yield AlignedWindow.sliding(size, slide, offset)
    def gap = end.collectFirst { case e: BinaryExpression if e.right.dataType == CalendarIntervalType => e.right }
    grid.map(_ -> None).getOrElse {
      // A gap given as text is a cast of it here.
      gap.map(e => e -> Option.when(e.foldable)(e.eval())) match {
        case Some((_, Some(interval: CalendarInterval))) => Sessions(Some(SessionGap.micros(interval))) -> None
        case Some((e, None))                             => Sessions(None) -> Some(CallText.sqlOf(e))
        case _                                           => throw unread(end)
      }
    }
  }
}
