package org.apache.spark.sql.mullion.plan.options

import java.time.DayOfWeek
import java.util.Locale

import scala.util.control.NonFatal

import org.json4s._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.Column

import dev.mullion.MullionException
import dev.mullion.windows.spec.{
  AlignedWindow,
  AroundWindow,
  CalendarWindow,
  CountWindow,
  CumulativeWindow,
  CustomWindow,
  GlobalTrigger,
  GlobalWindow,
  OrderedWindow,
  SessionWindow,
  WindowSpec
}

/** A serialized call of `windowed(…).agg(…)`: JSON, and its columns separately. The format is the same over py4j, from
  * Spark Connect and from SQL.
  *
  * {{{
  *   {"window":  {"kind": "tumbling", "size": us, "offset": us}          and so on, see `windowOf`
  *    "options": {"allowed_lateness": us, "late": "drop", ...}           by Python's names; missing ones have their default
  *    "collect": {"order": "time", "name": "rows", "max_rows": n, "in_parts": true}        instead of aggregates
  *    "columns": ["by", "by", "time", "aggregate", ...]}                 the role of each column, in order
  * }}}
  *
  * Lengths of time are microseconds.
  */
final case class CallDescription(
    window: WindowSpec,
    by: Seq[Column],
    options: WindowOptions,
    aggregates: Seq[Column]
)

object CallDescription {

  def read(json: String, columns: Seq[Column]): CallDescription = read(parsed(json), columns)

  def read(said: JValue, columns: Seq[Column]): CallDescription = reading(described(said, columns))

  /** A part of a request. Errors other than Mullion's own say that it cannot be read. */
  private[options] def reading[A](part: => A): A =
    try part
    catch {
      case e: MullionException => throw e
      case NonFatal(e)         => throw unreadable(String.valueOf(e.getMessage))
    }

  /** The request as JSON. */
  def parsed(json: String): JValue =
    try JsonMethods.parse(json)
    catch { case NonFatal(_) => throw unreadable("it is not JSON") }

  /** The error for a call that this version's Python and SQL never send. */
  def unreadable(why: String): MullionException = MullionException.invalid(
    s"The request for windows cannot be read: $why. Install the same version of Mullion on both sides."
  )

  private def described(said: JValue, columns: Seq[Column]): CallDescription = {
    val roles = rolesOf(said)
    if (roles.length != columns.length)
      throw unreadable(s"${columns.length} columns were sent with a call of ${roles.length}: $roles")
    val of = roles.zip(columns).groupMap(_._1)(_._2).withDefaultValue(Nil)
    CallDescription(
      windowOf(said \ "window"),
      of("by"),
      collected(said \ "collect", optionsOf(said, of)),
      of("aggregate")
    )
  }

  /** The role of each column of a call, in order. */
  def rolesOf(said: JValue): Seq[String] = (said \ "columns") match {
    case JArray(names) => names.collect { case JString(name) => name }
    case _             => Nil
  }

  private def windowOf(said: JValue): WindowSpec = {
    def us(name: String) = longOf(said \ name)
    (said \ "kind") match {
      case JString("tumbling") if some(said \ "starts").exists(text(_) == "first row") =>
        OrderedWindow.fromFirstRow(us("size"))
      case JString("tumbling") => AlignedWindow.tumbling(us("size"), us("offset"))
      case JString("sliding")  => AlignedWindow.sliding(us("size"), us("slide"), us("offset"))
      case JString("cumulate") => cumulative(said)
      case JString("calendar") => calendar(said)
      case JString("around")   => AroundWindow(us("before"), us("after"))
      case JString("session")  => session(said)
      case JString("count")    => CountWindow(us("size"), us("every"), some(said \ "timeout").map(longOf))
      case JString("every")    => GlobalWindow(GlobalTrigger.Every(us("rows")), endsWith(said))
      case JString("when")     => GlobalWindow(GlobalTrigger.When)
      case JString("changes")  => GlobalWindow(GlobalTrigger.Changes, endsWith(said))
      case JString("split")    => GlobalWindow(GlobalTrigger.Split(text(said \ "function")))
      case JString("custom")   => CustomWindow("each row's own")
      case other               => throw unreadable(s"$other is not a kind of window")
    }
  }

  private def session(said: JValue): WindowSpec = {
    val (gap, most) = (some(said \ "gap").map(longOf), some(said \ "max_length").map(longOf))
    val ends = endsWith(said)
    if (most.isEmpty && !ends) SessionWindow(gap) else OrderedWindow.session(gap, most, ends)
  }

  private def endsWith(said: JValue): Boolean = some(said \ "ends_with").exists(truth)

  private def count(number: Long): Int =
    if (number.isValidInt) number.toInt
    else throw MullionException.invalid(s"$number is more than a number of days, weeks or months can be (2^31 - 1).")

  private def calendar(said: JValue): CalendarWindow = {
    val (number, slides) = (count(longOf(said \ "number")), count(longOf(said \ "slides")))
    val (zone, offset) = (text(said \ "timezone"), longOf(said \ "offset"))
    text(said \ "unit") match {
      case "day"  => CalendarWindow.ofDays(number, zone, slides, offset)
      case "week" =>
        CalendarWindow.ofWeeks(
          number,
          zone,
          slides,
          DayOfWeek.valueOf(text(said \ "week_start").toUpperCase(Locale.ROOT)),
          offset
        )
      case "month" =>
        CalendarWindow.ofMonths(number, zone, slides, count(longOf(said \ "offset_months")), offset)
      case other => throw unreadable(s"the calendar has no windows of a $other")
    }
  }

  private def cumulative(said: JValue): CumulativeWindow = some(said \ "cycle") match {
    case None        => CumulativeWindow(longOf(said \ "size"), longOf(said \ "step"), longOf(said \ "offset"))
    case Some(cycle) =>
      def steps(name: String) = some(said \ name).fold(0)(n => count(longOf(n)))
      some(said \ "step").fold(
        CumulativeWindow.byCalendar(calendar(cycle), steps("step_days"), steps("step_months"))
      )(step => CumulativeWindow.byCalendar(calendar(cycle), longOf(step)))
  }

  private type Change = WindowOptions => WindowOptions

  private def optionsOf(said: JValue, columns: String => Seq[Column]): WindowOptions = {
    val options = said \ "options"
    def when(name: String)(change: JValue => Change): Change = some(options \ name).fold[Change](identity)(change)
    def column(role: String)(change: (WindowOptions, Column) => WindowOptions): Change =
      options => columns(role).foldLeft(options)(change)
    val function = some(said \ "window" \ "function").map(text)
    Seq[Change](
      // The time first: without one there is no lateness.
      column("time")(_.withTime(_)),
      when("allowed_lateness")(us => _.withAllowedLateness(longOf(us))),
      when("on_time")(on => _.withOnTime(truth(on))),
      when("accumulate")(on => _.withAccumulate(truth(on))),
      when("late")(policy => _.withLate(text(policy))),
      when("empty")(policy => if (text(policy) == "forward") _.withForward else _.withEmpty(text(policy) == "emit")),
      when("empty_for")(table => _.withEmptyFor(text(table))),
      when("ids")(on => _.withIds(truth(on))),
      when("early")(early),
      when("at_end")(policy => if (text(policy) == "close") _.withCloseAtEnd else identity),
      when("clock")(clock),
      when("forget_after")(us => _.withForgetAfter(longOf(us))),
      when("upgrade")(upgrade),
      options => if (columns("dedupe_by").isEmpty) options else options.withDedupeBy(columns("dedupe_by").toArray),
      column("gap")(_.withGap(_)),
      column("trigger")(_.withTrigger(_)),
      column("ends_with")(_.withEndsWith(_)),
      column("ranges")(_.withRanges(_)),
      when("ranges_text")(words => _.withRangesText(text(words))),
      column("split")((options, ask) => function.fold(options)(options.withSplit(ask, _))),
      options => if (columns("seen").isEmpty) options else options.withSplitColumns(columns("seen").toArray)
    ).foldLeft(WindowOptions())((options, change) => change(options))
  }

  private def early(said: JValue): Change = { options =>
    val unchanged = some(said \ "unchanged").exists(truth)
    val every = some(said \ "every").map(longOf).fold(options)(options.withEarly(_, unchanged))
    val wall = some(said \ "wall").map(longOf).fold(every)(every.withEarlyByWall(_, unchanged))
    val counted = some(said \ "count").map(longOf).fold(wall)(wall.withEarlyCount)
    if (some(said \ "each_row").exists(truth)) counted.withRunning else counted
  }

  private def clock(said: JValue): Change = options =>
    text(said \ "kind") match {
      case "per key" =>
        val own = options.withClockPerKey(some(said \ "wall_time").exists(truth))
        if (some(said \ "late_by").exists(text(_) == "watermark")) own.withLateBehindClock else own
      case _ =>
        val idling = some(said \ "idle_after").map(longOf).fold(options)(options.withIdleAfter)
        some(said \ "max_ahead").map(longOf).fold(idling)(idling.withMaxAhead)
    }

  private def upgrade(said: JValue): Change = { options =>
    val fromNow = some(said \ "new_aggregates").exists(text(_) == "from now")
    val current = if (fromNow) options.withNewAggregatesFromNow else options
    some(said \ "window").map(text) match {
      case Some("drain") => current.withDrainOnChange
      case Some("drop")  => current.withDropOnChange
      case _             => current
    }
  }

  private def collected(said: JValue, options: WindowOptions): WindowOptions = some(said).fold(options) { collect =>
    options.withCollect(
      text(collect \ "order") == "time",
      text(collect \ "name"),
      longOf(collect \ "max_rows"),
      inParts = collect \ "in_parts" == JBool(true)
    )
  }

  private def some(value: JValue): Option[JValue] = value match {
    case JNothing | JNull => None
    case there            => Some(there)
  }

  private def longOf(value: JValue): Long = value match {
    // Numbers beyond a long are rejected, like Python's own over py4j.
    case JInt(number) if number.isValidLong => number.toLong
    case JInt(number)                       =>
      throw MullionException.invalid(s"$number is more than a number of rows or of microseconds can be (2^63 - 1).")
    case other => throw unreadable(s"$other is not an integer")
  }

  private def text(value: JValue): String = value match {
    case JString(text) => text
    case other         => throw unreadable(s"$other is not text")
  }

  private def truth(value: JValue): Boolean = value match {
    case JBool(value) => value
    case other        => throw unreadable(s"$other is neither true nor false")
  }
}
