package org.apache.spark.sql.mullion.request.sql

import org.json4s._

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.mullion.plan.options.AsOfOptions
import org.apache.spark.sql.mullion.request.{ResolveCalls, Several}

import dev.mullion.MullionException
import dev.mullion.windows.rules.AsOfDirection

/** `mullion_asof_join(TABLE(trades), TABLE(quotes), by => 'symbol', left_time => 'ts', …)` as the request of Python's
  * `asof_join(trades, quotes, by="symbol", left_time="ts", …)`.
  */
private[request] object SqlAsOf {
  val name = "mullion_asof_join"

  val parameters: Seq[String] =
    Seq("left", "right", "by", "left_time", "right_time", "tolerance", "direction", "allow_exact", "suffix")

  private val example =
    s"$name(TABLE(trades), TABLE(quotes), by => 'symbol', left_time => 'ts', right_time => 'quoted_at')"

  def apply(values: Seq[Expression]): LogicalPlan = {
    val arguments = SqlArguments(name, parameters, values, example)
    val sides = Seq("left", "right").map { side =>
      val rows = arguments.table(side)
      if (rows.partitionByExpressions.nonEmpty || rows.orderByExpressions.nonEmpty || rows.withSinglePartition)
        throw MullionException.invalid(
          s"$side => TABLE(...) of $name has PARTITION BY, ORDER BY or WITH SINGLE PARTITION. Leave them out; the keys are " +
            "given with by => 'symbol'."
        )
      rows.plan
    }
    val by = arguments.columns("by").map {
      case UnresolvedAttribute(Seq(column)) => column
      case other                            =>
        throw MullionException.invalid(
          s"by => '${other.sql}' of $name is not the name of a column. Name columns that both sides have."
        )
    }
    val request = Seq(
      "call" -> JString("asof_join"),
      "by" -> JArray(by.map(JString(_)).toList),
      "left_time" -> JString(arguments.needed("left_time", arguments.text)),
      "right_time" -> JString(arguments.needed("right_time", arguments.text)),
      "tolerance" -> arguments.length("tolerance").fold[JValue](JNull)(JLong(_)),
      "direction" -> JString(arguments.oneOf("direction", AsOfDirection.all.map(_.name)).getOrElse("backward")),
      "allow_exact" -> JBool(arguments.truth("allow_exact").getOrElse(true)),
      "suffix" -> JString(arguments.text("suffix").getOrElse(AsOfOptions.Suffix))
    )
    ResolveCalls.callInSql(request, Nil, Several(sides))
  }
}
