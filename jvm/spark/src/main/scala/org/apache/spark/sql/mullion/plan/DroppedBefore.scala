package org.apache.spark.sql.mullion.plan

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{EventTime, _}
import org.apache.spark.sql.mullion.shim.SparkVersionShim

import dev.mullion.windows.spec.Setting

/** Finds Spark's operators before a window that drop rows by the watermark, which the window then never receives.
  *
  * {{{
  *   rows - withWatermark - dropDuplicates - WindowedAggregate(allowed lateness 10 min, late emit)
  *                          drops rows        only checks whether a
  *                          older than the    row's pane has closed
  *                          watermark
  * }}}
  *
  * Spark's operators drop all rows older than the watermark, even if their panes stay open for long, and only report a
  * metric. Further operators after the first drop nothing more: its output is not late. Nor are final results of
  * Mullion's windows.
  */
object DroppedBefore {

  /** The warnings about the operators below a window; none if no operator drops rows. */
  def warnings(input: LogicalPlan): Seq[String] =
    if (!input.isStreaming) Nil else dropping(input).map(warning).distinct

  /** Logs the warnings, once in each run of a query. */
  def log(input: LogicalPlan): Unit = RunWarnings.log(warnings(input))

  private def dropping(plan: LogicalPlan): Seq[LogicalPlan] = plan match {
    // It logs its own warnings.
    case Windows(_) => Nil
    case _          =>
      plan.children.flatMap(dropping) ++ Option.when(drops(plan) && plan.children.exists(letsLateRowsThrough))(plan)
  }

  /** True if `plan` may emit rows that are older than the watermark. */
  private def letsLateRowsThrough(plan: LogicalPlan): Boolean = plan match {
    case Windows(nodes) => nodes.exists(node => !isTime(node.window))
    case _              => !drops(plan) && (plan.children.isEmpty || plan.children.exists(letsLateRowsThrough))
  }

  private def drops(plan: LogicalPlan): Boolean = plan.isStreaming && (plan match {
    case one: Deduplicate                       => hasTime(one.child)
    case one: DeduplicateWithinWatermark        => hasTime(one.child)
    case one: Distinct                          => hasTime(one.child)
    case one: Aggregate                         => one.groupingExpressions.exists(isTime)
    case one: FlatMapGroupsWithState            => one.timeout == EventTimeTimeout && hasTime(one.child)
    case one: FlatMapGroupsInPandasWithState    => one.timeout == EventTimeTimeout && hasTime(one.child)
    case one: TransformWithState                => one.timeMode == EventTime && hasTime(one.child)
    case one: SparkVersionShim.StatefulInPython => one.timeMode == EventTime && hasTime(one.left)
    case one: Join                              => one.children.forall(_.isStreaming) && one.children.exists(hasTime)
    case _                                      => false
  })

  private def hasTime(input: LogicalPlan): Boolean = input.output.exists(isTime)

  /** True if a column has the watermark. */
  private def isTime(column: Expression): Boolean = column match {
    case named: NamedExpression => named.resolved && named.metadata.contains(EventTimeWatermark.delayKey)
    case _                      => false
  }

  private def warning(operator: LogicalPlan): String = {
    val (name, instead) = operator match {
      case one: Deduplicate                => s"dropDuplicates(${columns(one.keys)})" -> duplicates(one.keys)
      case one: DeduplicateWithinWatermark =>
        s"dropDuplicatesWithinWatermark(${columns(one.keys)})" -> duplicates(one.keys)
      case one: Distinct => "distinct()" -> duplicates(one.output)
      case _: Aggregate  =>
        "groupBy(...).agg(...)" ->
          s"or replace the groupBy by windowed(...): it has an ${Setting.AllowedLateness} of its own"
      case _: Join => "the join of two streams" -> "or window a stream before the join"
      case other   => s"${called(other)} with timers by event time" -> "or window the rows before it"
    }
    s"$name before windowed(...) silently drops rows that are older than the watermark, even if their panes are open: " +
      s"they do not reach the window, and ${Setting.AllowedLateness}, ${Setting.Late} and the metric rowsLate do not apply to them. If such " +
      "rows matter, put the entire lateness into the delay of withWatermark(...), and none of it into " +
      s"${Setting.AllowedLateness}; $instead."
  }

  private def duplicates(keys: Seq[Attribute]) =
    s"or let windowed(..., ${Setting.dedupeBy(keys.map(_.name))}) take its place: in each pane rows with one such value count once"

  private def columns(keys: Seq[Attribute]): String = keys.map(key => s"'${key.name}'").mkString("[", ", ", "]")

  private def called(operator: LogicalPlan): String = operator match {
    case _: FlatMapGroupsInPandasWithState    => "applyInPandasWithState"
    case _: SparkVersionShim.StatefulInPython => "transformWithState"
    case other                                => s"${other.nodeName.head.toLower}${other.nodeName.tail}"
  }
}
