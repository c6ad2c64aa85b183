package org.apache.spark.sql.mullion.request.sql

import org.json4s._

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.mullion.plan.options.{AsOfOptions, WindowedJoinOptions}
import org.apache.spark.sql.mullion.request.ResolveCalls

import dev.mullion.windows.spec.Language

/** `mullion_windowed_join(TABLE(orders), TABLE(clicks), window => 'tumbling', size => '1 hour', by => 'user', …)` as
  * the request of Python's `windowed_join(orders, clicks, Tumbling("1 hour"), by="user", …)`.
  */
private[request] object SqlWindowedJoin {
  val name = "mullion_windowed_join"

  private val kinds = Seq("tumbling", "sliding", "cumulate", "session", "custom")

  val parameters: Seq[String] = Seq("left", "right", "window") ++ kinds.flatMap(SqlWindowed.ofKind).distinct ++
    Seq("by", "time", "right_time", "how", "clock_idle_after", "clock_max_ahead", "allowed_lateness", "late", "suffix")

  private val example =
    s"$name(TABLE(orders), TABLE(clicks), window => 'tumbling', size => '1 hour', by => 'user', time => 'ts')"

  def apply(values: Seq[Expression]): LogicalPlan = Language.Sql {
    val arguments = SqlArguments(name, parameters, values, example)
    val ofWindow = new SqlWindowed(arguments)
    val (window, columns) = ofWindow.windowOf(arguments.needed("window", arguments.oneOf(_, kinds)))
    val time = arguments.needed("time", arguments.text)
    val join = Seq(
      "by" -> SqlJoinSides.keys(arguments),
      "time" -> JString(time),
      "right_time" -> JString(arguments.text("right_time").getOrElse(time)),
      "how" -> JString(arguments.text("how").fold("inner")(WindowedJoinOptions.how(_).name)),
      "suffix" -> JString(arguments.text("suffix").getOrElse(AsOfOptions.Suffix))
    )
    val request = Seq(
      "call" -> JString("windowed_join"),
      "window" -> JObject(window.toList),
      "options" -> JObject(ofWindow.options.toList),
      "join" -> JObject(join.toList),
      "columns" -> JArray(columns.map(column => JString(column._1)).toList)
    )
    ResolveCalls.callInSql(request, columns.map(_._2), SqlJoinSides(arguments))
  }
}
