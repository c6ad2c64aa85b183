package org.apache.spark.sql.mullion.request.sql

import org.json4s._

import org.apache.spark.sql.catalyst.expressions.{
  Expression,
  FunctionTableSubqueryArgumentExpression,
  NamedArgumentExpression
}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.mullion.request.{ResolveCalls, Several}

import dev.mullion.MullionException

/** `mullion_together(hourly => TABLE(…), visits => TABLE(…))` as the request of Python's `together(hourly=…,
  * visits=…)`. The argument names are the names of the windows.
  */
private[request] object SqlTogether {
  val name = "mullion_together"

  private val example =
    s"$name(hourly => TABLE(SELECT * FROM mullion_windowed(...)), visits => TABLE(SELECT * FROM mullion_windowed(...)))"

  def apply(values: Seq[Expression]): LogicalPlan = {
    if (values.isEmpty)
      throw MullionException.invalid(s"$name was given no window. Name at least one: $example.")
    val windows = values.map {
      case NamedArgumentExpression(window, rows: FunctionTableSubqueryArgumentExpression) =>
        window -> panes(window, rows)
      case NamedArgumentExpression(window, other) =>
        throw MullionException.invalid(
          s"$window => ${other.sql} of $name are no panes. Give what mullion_windowed made, as a table: $example."
        )
      case other =>
        throw MullionException.invalid(
          s"$name was given ${shown(other)} without a name for the window. Write, for instance, $example."
        )
    }
    val request = Seq("call" -> JString("together"), "names" -> JArray(windows.map(of => JString(of._1)).toList))
    ResolveCalls.callInSql(request, Nil, Several(windows.map(_._2)))
  }

  private def panes(window: String, rows: FunctionTableSubqueryArgumentExpression): LogicalPlan =
    if (rows.partitionByExpressions.nonEmpty || rows.orderByExpressions.nonEmpty || rows.withSinglePartition)
      throw MullionException.invalid(
        s"$window => TABLE(...) of $name has PARTITION BY, ORDER BY or WITH SINGLE PARTITION, which say nothing to panes. Leave " +
          "them out; keys are given where the window is made."
      )
    else rows.plan

  private def shown(e: Expression): String = e match {
    case _: FunctionTableSubqueryArgumentExpression => "a table"
    case other                                      => other.sql
  }
}
