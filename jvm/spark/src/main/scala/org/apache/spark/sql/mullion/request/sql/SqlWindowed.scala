package org.apache.spark.sql.mullion.request.sql

import java.time.DayOfWeek
import java.time.format.TextStyle
import java.util.Locale

import org.json4s._

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.mullion.request.ResolveCalls

import dev.mullion.MullionException

/** `mullion_windowed(TABLE(rows), window => 'tumbling', size => '1 hour', …)` as the request of Python's
  * `windowed(…).agg(…)`, with the same names.
  *
  * Expressions over the rows (keys, time, aggregates) are SQL text, because Spark resolves the arguments of a table
  * function before its input.
  */
private[request] final class SqlWindowed(arguments: SqlArguments) {
  import arguments._

  def call: LogicalPlan = {
    val rows = table("rows")
    if (rows.orderByExpressions.nonEmpty || rows.withSinglePartition)
      throw MullionException.invalid(
        s"${SqlWindowed.name} accepts rows in any order, so ORDER BY and WITH SINGLE PARTITION have no effect. Leave them out, " +
          "and name the rows' time, as in time => 'ts'."
      )
    if (rows.partitionByExpressions.nonEmpty && has("by"))
      throw MullionException.invalid(
        s"${SqlWindowed.name} was given keys twice: by PARTITION BY and by 'by'. Leave one of them out."
      )
    if (!has("time"))
      throw MullionException.invalid(
        s"${SqlWindowed.name} was not given time. Name the column that holds each row's event time, as in time => 'ts', or write " +
          "time => NULL for windows by the wall clock or of row numbers."
      )
    val (window, ofWindow) = windowOf(needed("window", oneOf(_, SqlWindowed.kinds)))
    val columns = Seq(
      "by" -> (rows.partitionByExpressions ++ arguments.columns("by")),
      "time" -> column("time").toSeq,
      "dedupe_by" -> arguments.columns("dedupe_by"),
      "aggregate" -> outputs
    ).flatMap { case (role, all) => all.map(role -> _) } ++ ofWindow
    val request = Seq(
      "call" -> JString("windowed"),
      "window" -> JObject(window.toList),
      "options" -> JObject(options.toList),
      "collect" -> collect,
      "columns" -> JArray(columns.map(column => JString(column._1)).toList)
    )
    ResolveCalls.callInSql(request, columns.map(_._2), rows.plan)
  }

  private type Said = Seq[(String, JValue)]

  /** A window, and its columns with their roles. */
  def windowOf(kind: String): (Said, Seq[(String, Expression)]) = {
    val parameters = SqlWindowed.ofKind(kind)
    SqlWindowed.ofWindows.filterNot(parameters.contains).find(has).foreach { name =>
      throw MullionException.invalid(
        s"$name has no effect with window => '$kind', which accepts ${parameters.mkString(", ")}. Leave it out."
      )
    }
    def us(name: String): (String, JValue) = name -> JLong(needed(name, positive(_)))
    def offset = length("offset").map(us => "offset" -> JLong(us)).getOrElse("offset" -> JLong(0))
    def rows(name: String): JValue = JLong(needed(name, number(_)))
    def by(role: String, name: String) = Seq(role -> needed(name, column(_)))
    val (said, columns): (Said, Seq[(String, Expression)]) = kind match {
      case "tumbling" if oneOf("starts", Seq("grid", "first row")).contains("first row") =>
        Seq("offset", "timezone", "week_start").find(has).foreach { name =>
          throw MullionException.invalid(
            s"$name shifts a grid, and windows with starts => 'first row' are on none. Leave one of them out."
          )
        }
        (Seq(us("size"), "starts" -> JString("first row")), Nil)
      case "tumbling" | "sliding" if has("timezone") => (calendar(kind), Nil)
      case "cumulate" if has("timezone") => (Seq("cycle" -> JObject(calendar(kind).toList)) ++ calendarStep, Nil)
      case "tumbling" | "sliding" | "cumulate" if has("week_start") =>
        throw MullionException.invalid(
          "week_start needs timezone. Give one, such as timezone => 'UTC', or leave it out."
        )
      case "tumbling"                                   => (Seq(us("size"), offset), Nil)
      case "sliding"                                    => (sliding, Nil)
      case "cumulate"                                   => (Seq(us("size"), us("step"), offset), Nil)
      case "session" if has("gap_column") && has("gap") =>
        throw MullionException.invalid("gap and gap_column both say how long a pause ends a session. Give one of them.")
      case "session" =>
        val (gap, byRow) = if (has("gap_column")) (Nil, by("gap", "gap_column")) else (Seq(us("gap")), Nil)
        val ends = column("ends_with").map("trigger" -> _).toSeq
        val most = Option.when(has("max_length"))(us("max_length"))
        (gap ++ most ++ ends.map(_ => "ends_with" -> (JBool(true): JValue)), byRow ++ ends)
      case "around" =>
        (Seq("before" -> JLong(needed("before", length(_))), "after" -> JLong(length("after").getOrElse(0L))), Nil)
      case "count" =>
        val every = number("every").fold(rows("length"))(JLong(_))
        (Seq("size" -> rows("length"), "every" -> every) ++ Option.when(has("timeout"))(us("timeout")), Nil)
      case "global" => global
      case "custom" => (Nil, by("ranges", "ranges"))
      case other    => throw new IllegalStateException(other)
    }
    val named = if (said.exists(_._1 == "kind")) said else ("kind" -> JString(kind)) +: said
    (named, columns)
  }

  private def sliding: Said = {
    val (size, slide) = (needed("size", positive(_)), needed("slide", positive(_)))
    if (slide > size && !truth("gaps").contains(true))
      throw MullionException.invalid(
        "The slide is longer than the size, so rows between two windows would be in none. If the gaps are intended, add " +
          "gaps => true."
      )
    Seq("size" -> JLong(size), "slide" -> JLong(slide), "offset" -> JLong(length("offset").getOrElse(0L)))
  }

  /** Windows by the calendar of a time zone. The texts of sizes and offsets are those of Python. */
  private def calendar(kind: String): Said = {
    def units(name: String): (Long, String) = {
      val length = needed(name, text)
      CalendarLength.of(length).getOrElse {
        throw MullionException.invalid(
          s"$name => '$length' is not a number of days, weeks, months, quarters or years, as windows by the calendar of " +
            s"timezone require. Write $name => '1 day', or leave timezone out."
        )
      }
    }
    val (size, sizeUnit) = units("size")
    val (step, unit) = if (kind == "sliding") units("slide") else (size, sizeUnit)
    val slides = CalendarLength.slides(size -> sizeUnit, step -> unit).getOrElse {
      throw MullionException.invalid(
        s"The slide of ${needed("slide", text)} does not divide the size of ${needed("size", text)}. Give calendar windows a " +
          "slide that does, such as slide => '1 day'."
      )
    }
    if (has("week_start") && unit != "week")
      throw MullionException.invalid(
        "week_start is for windows of weeks. Leave it out, or give the length in weeks, such as '1 week'."
      )
    val weekStart = oneOf("week_start", DayOfWeek.values.toSeq.map(_.getDisplayName(TextStyle.FULL, Locale.ENGLISH)))
    val months =
      ifText("offset").flatMap(CalendarLength.of).filter(_._2 == "month").map(_._1).filter(_ => unit == "month")
    Seq(
      "kind" -> JString("calendar"),
      "number" -> JLong(step),
      "unit" -> JString(unit),
      "slides" -> JLong(slides),
      "timezone" -> JString(needed("timezone", text)),
      "week_start" -> JString(weekStart.getOrElse("Monday")),
      "offset_months" -> JLong(months.getOrElse(0L)),
      "offset" -> JLong(if (months.isDefined) 0L else length("offset").getOrElse(0L))
    )
  }

  /** The step of windows that grow in cycles by the calendar: a number of days or months, or a time. */
  private def calendarStep: Said = CalendarLength.of(needed("step", text)) match {
    case Some((number, "month")) => Seq("step_months" -> JLong(number))
    case Some((number, unit))    => Seq("step_days" -> JLong(if (unit == "week") number * 7 else number))
    case None                    => Seq("step" -> JLong(needed("step", positive(_))))
  }

  private def global: (Said, Seq[(String, Expression)]) = {
    val ways = Seq("every", "when", "changes").filter(has)
    if (has("when") && has("ends_with"))
      throw MullionException.invalid(
        "when and ends_with are both the condition that closes a window. Join them with OR."
      )
    val ends = column("ends_with").map("ends_with" -> _).toSeq
    def kind(of: String): Said = ("kind" -> JString(of)) +: ends.map(_ => "ends_with" -> JBool(true))
    ways match {
      case Seq("every") => (kind("every") :+ ("rows" -> JLong(needed("every", number(_)))), ends)
      case Seq(one)     => (kind(one), Seq("trigger" -> needed(one, column(_))) ++ ends)
      case _            =>
        throw MullionException.invalid(
          "window => 'global' takes one of every, when and changes, which say when a window closes, and was given " +
            s"${if (ways.isEmpty) "none" else ways.mkString(" and ")}. Write, for instance, every => 100."
        )
    }
  }

  /** The output columns of panes. */
  private def outputs: Seq[Expression] = (columns("aggregates"), has("collect")) match {
    case (Nil, false) =>
      throw MullionException.invalid(
        s"${SqlWindowed.name} has no aggregates for its panes. Write, for instance, aggregates => 'count(*) AS n', or " +
          "collect => 'rows' for the rows themselves."
      )
    case (some, true) if some.nonEmpty =>
      throw MullionException.invalid("A pane holds aggregates or its rows: give aggregates or collect, and not both.")
    case (all, _) => all
  }

  private def collect: JValue = text("collect").fold[JValue](JNothing) { name =>
    JObject(
      "order" -> JString(oneOf("collect_order", Seq("arrival", "time")).getOrElse("arrival")),
      "name" -> JString(name),
      "max_rows" -> JLong(number("max_rows").getOrElse(1000000L))
    )
  }

  def options: Said = {
    def choice(name: String, choices: String*) = oneOf(name, choices).map(value => name -> (JString(value): JValue))
    def flag(name: String) = truth(name).map(value => name -> (JBool(value): JValue))
    val early = Seq[Option[(String, JValue)]](
      positive("early").map(us => "every" -> JLong(us)),
      positive("early_wall").map(us => "wall" -> JLong(us)),
      number("early_count").map(rows => "count" -> JLong(rows)),
      truth("early_unchanged").map(value => "unchanged" -> JBool(value)),
      truth("early_each_row").map(value => "each_row" -> JBool(value))
    ).flatten
    if (has("early") && has("early_wall"))
      throw MullionException.invalid("early and early_wall both say by which clock panes fire early. Give one of them.")
    if (has("early_unchanged") && !has("early") && !has("early_wall"))
      throw MullionException.invalid(
        "early_unchanged is of firings at an interval. Give early or early_wall, or leave it out."
      )
    Seq[Option[(String, JValue)]](
      length("allowed_lateness").map(notNegative("allowed_lateness", _)).map(us => "allowed_lateness" -> JLong(us)),
      Option.when(early.nonEmpty)("early" -> JObject(early.toList)),
      flag("on_time"),
      flag("accumulate"),
      choice("late", "drop", "emit", "reopen", "reopen each"),
      choice("empty", (if (has("empty_for")) Seq("emit") else Seq("skip", "emit", "forward")): _*),
      text("empty_for").map(table => "empty_for" -> JString(table)),
      flag("ids"),
      choice("at_end", "keep", "close"),
      Some("clock" -> clock),
      Seq("forget_after", "clock_forget_after").flatMap(positive(_)).headOption.map(us => "forget_after" -> JLong(us)),
      Some("upgrade" -> upgrade)
    ).flatten
  }

  private def clock: JObject = {
    val isPerKey = oneOf("clock", Seq("watermark", "per key")).contains("per key")
    val (own, ofStream) =
      (Seq("clock_wall_time", "clock_late_by", "clock_forget_after"), Seq("clock_idle_after", "clock_max_ahead"))
    (if (isPerKey) ofStream else own).find(has).foreach { name =>
      throw MullionException.invalid(
        s"$name is of clock => '${if (isPerKey) "watermark" else "per key"}'. Leave it out, or give that clock."
      )
    }
    val settings = Seq[Option[(String, JValue)]](
      positive("clock_idle_after").map(us => "idle_after" -> JLong(us)),
      length("clock_max_ahead").map(notNegative("clock_max_ahead", _)).map(us => "max_ahead" -> JLong(us)),
      truth("clock_wall_time").map(value => "wall_time" -> JBool(value)),
      oneOf("clock_late_by", Seq("panes", "watermark")).map(value => "late_by" -> JString(value))
    )
    JObject(("kind" -> JString(if (isPerKey) "per key" else "watermark")) +: settings.flatten: _*)
  }

  private def upgrade: JObject = JObject(
    Seq(
      oneOf("upgrade_new_aggregates", Seq("reject", "from now")).map("new_aggregates" -> JString(_)),
      oneOf("upgrade_window", Seq("reject", "drain", "drop")).map("window" -> JString(_))
    ).flatten: _*
  )

  private def notNegative(name: String, us: Long): Long =
    if (us >= 0) us
    else throw MullionException.invalid(s"$name of $function is negative. Give '0 seconds' or more.")
}

private[request] object SqlWindowed {
  val name = "mullion_windowed"

  def apply(values: Seq[Expression]): SqlWindowed = new SqlWindowed(SqlArguments(name, parameters, values, example))

  val example =
    "mullion_windowed(TABLE(events), window => 'tumbling', size => '1 hour', by => 'carrier', time => 'ts', aggregates => " +
      "'count(*) AS n')"

  /** The parameters of each kind of window. */
  val ofKind: Map[String, Seq[String]] = Map(
    "tumbling" -> Seq("size", "offset", "timezone", "week_start", "starts"),
    "sliding" -> Seq("size", "slide", "offset", "timezone", "week_start", "gaps"),
    "cumulate" -> Seq("size", "step", "offset", "timezone", "week_start"),
    "session" -> Seq("gap", "gap_column", "max_length", "ends_with"),
    "around" -> Seq("before", "after"),
    "count" -> Seq("length", "every", "timeout", "forget_after"),
    "global" -> Seq("every", "when", "changes", "ends_with", "forget_after"),
    "custom" -> Seq("ranges")
  )

  val kinds: Seq[String] = Seq("tumbling", "sliding", "cumulate", "session", "around", "count", "global", "custom")

  val ofWindows: Seq[String] = kinds.flatMap(ofKind).distinct

  val parameters: Seq[String] = Seq("rows", "window") ++ ofWindows ++ Seq("by", "time", "aggregates", "collect") ++
    Seq("collect_order", "max_rows", "allowed_lateness", "early", "early_wall", "early_count", "early_unchanged") ++
    Seq(
      "early_each_row",
      "clock",
      "clock_idle_after",
      "clock_max_ahead",
      "clock_wall_time",
      "clock_late_by",
      "clock_forget_after",
      "on_time",
      "accumulate"
    ) ++
    Seq("late", "empty", "empty_for", "ids", "dedupe_by", "at_end", "upgrade_new_aggregates", "upgrade_window")
}
