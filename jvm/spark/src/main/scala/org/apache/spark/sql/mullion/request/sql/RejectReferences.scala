package org.apache.spark.sql.mullion.request.sql

import java.util.Locale

import org.apache.spark.sql.catalyst.analysis.{Star, UnresolvedAttribute, UnresolvedTableValuedFunction}
import org.apache.spark.sql.catalyst.expressions.{
  Expression,
  FunctionTableSubqueryArgumentExpression,
  NamedArgumentExpression
}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.UNRESOLVED_TABLE_VALUED_FUNCTION

import dev.mullion.MullionException

/** Rejects columns as arguments of SQL table functions: `time => ts`, and `clicks` instead of `TABLE(clicks)`. Spark
  * never resolves them, and its own error does not name the fix.
  *
  * It runs after Spark's rules, which replace the variables of a session by their values.
  */
object RejectReferences extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (plan.containsPattern(UNRESOLVED_TABLE_VALUED_FUNCTION)) plan.foreach {
      case call: UnresolvedTableValuedFunction => reject(call.name.last.toLowerCase(Locale.ROOT), call.functionArgs)
      case _                                   =>
    }
    plan
  }

  private def reject(name: String, arguments: Seq[Expression]): Unit =
    for (function <- TableFunctions.named(name); (argument, i) <- arguments.zipWithIndex) {
      val (parameter, value) = argument match {
        case NamedArgumentExpression(name, value) => (Some(name), value)
        case other                                => (None, other)
      }
      if (refersToColumns(value))
        throw MullionException.invalid(
          if (function.isTable(parameter, i)) noTable(name, parameter, value)
          else noText(name, parameter.orElse(function.parameters.lift(i)), value)
        )
    }

  private def refersToColumns(value: Expression): Boolean = value match {
    // The columns of PARTITION BY and ORDER BY are columns of its rows.
    case _: FunctionTableSubqueryArgumentExpression => false
    case other => other.exists { case _: UnresolvedAttribute | _: Star => true; case _ => false }
  }

  private def noTable(function: String, parameter: Option[String], value: Expression): String = {
    val place = parameter.fold("")(name => s"$name => ")
    s"$place${shown(value)} of $function refers to a column, and must be a table, a view or a query. Write " +
      s"${place}TABLE(${shown(value)})."
  }

  private def noText(function: String, parameter: Option[String], value: Expression): String = {
    val place = parameter.fold("")(name => s"$name => ")
    s"$place${shown(value)} of $function refers to a column, and Spark resolves arguments before the table. Write it as text: " +
      s"$place'${shown(value).replace("'", "\\'")}'."
  }

  private def shown(value: Expression): String = value.sql.replace("`", "")
}
