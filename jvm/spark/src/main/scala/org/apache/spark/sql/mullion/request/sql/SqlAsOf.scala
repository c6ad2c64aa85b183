package org.apache.spark.sql.mullion.request.sql

import org.json4s._

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.mullion.plan.options.AsOfOptions
import org.apache.spark.sql.mullion.request.ResolveCalls

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
    val request = Seq(
      "call" -> JString("asof_join"),
      "by" -> SqlJoinSides.keys(arguments),
      "left_time" -> JString(arguments.needed("left_time", arguments.text)),
      "right_time" -> JString(arguments.needed("right_time", arguments.text)),
      "tolerance" -> arguments.length("tolerance").fold[JValue](JNull)(JLong(_)),
      "direction" -> JString(arguments.oneOf("direction", AsOfDirection.all.map(_.name)).getOrElse("backward")),
      "allow_exact" -> JBool(arguments.truth("allow_exact").getOrElse(true)),
      "suffix" -> JString(arguments.text("suffix").getOrElse(AsOfOptions.Suffix))
    )
    ResolveCalls.callInSql(request, Nil, SqlJoinSides(arguments))
  }
}
