package dev.mullion

import org.apache.spark.sql.Column
import org.apache.spark.sql.mullion.builders.WindowOptions

import dev.mullion.windows.spec.{
  AlignedWindow,
  AroundWindow,
  CalendarWindow,
  CountWindow,
  CustomWindow,
  GlobalTrigger,
  GlobalWindow,
  SessionWindow,
  WindowSpec
}

/** Which windows a row is in: a value that says so, and nothing that runs.
  *
  * @throws MullionException
  *   when it is made, for a length that is not longer than zero and the like
  */
sealed trait Window {
  private[mullion] def spec: WindowSpec

  /** What the columns that a window names are to the operator. */
  private[mullion] def asked(options: WindowOptions): WindowOptions = options
}

/** Windows that follow one another without overlap or gap. A row is in exactly one.
  * {{{
  *   |----|----|----|----|
  * }}}
  *
  * @param offset
  *   shifts where windows start from the epoch
  */
final case class Tumbling(size: Span, offset: Span = Span.zero) extends Window {
  private[mullion] override val spec: WindowSpec = AlignedWindow.tumbling(Span.positive("size", size), offset.micros)
}

object Tumbling {

  /** Windows of so many days by the calendar of a time zone, such as `Europe/Berlin`: from midnight to midnight. */
  def days(n: Int, zone: String): Window = Calendar(n, "day", zone)

  /** Windows of so many weeks, which begin on Monday. */
  def weeks(n: Int, zone: String): Window = Calendar(n, "week", zone)

  /** Windows of so many months; three are a quarter, twelve a year. */
  def months(n: Int, zone: String): Window = Calendar(n, "month", zone)
}

/** Windows of whole days, weeks or months of a calendar. */
private[mullion] final case class Calendar(n: Int, unit: String, zone: String) extends Window {
  private[mullion] override val spec: WindowSpec = unit match {
    case "day"  => CalendarWindow.ofDays(n, zone)
    case "week" => CalendarWindow.ofWeeks(n, zone)
    case _      => CalendarWindow.ofMonths(n, zone)
  }
}

/** Windows of one length, of which one begins with each slide. A row is in all that hold it.
  * {{{
  *   |--------|
  *      |--------|
  *         |--------|
  * }}}
  */
final case class Sliding(size: Span, slide: Span, offset: Span = Span.zero) extends Window {
  private[mullion] override val spec: WindowSpec =
    AlignedWindow.sliding(Span.positive("size", size), Span.positive("slide", slide), offset.micros)
}

/** Rows of a key that are no further apart than the gap are one session.
  * {{{
  *   x x  x        x x
  *   |----------|  |------|
  * }}}
  */
final case class Session(gap: Span) extends Window {
  private[mullion] override val spec: WindowSpec = SessionWindow(Some(Span.positive("gap", gap)))
}

object Session {

  /** Sessions in which each row brings its own gap, in a column of intervals. */
  def byRow(gap: Column): Window = SessionByRow(gap)
}

/** Sessions whose rows bring their gaps. */
private[mullion] final case class SessionByRow(gap: Column) extends Window {
  private[mullion] override val spec: WindowSpec = SessionWindow(None)

  private[mullion] override def asked(options: WindowOptions): WindowOptions = options.withGap(gap)
}

/** A window about each row, from `before` its time to `after` it. */
final case class Around(before: Span, after: Span = Span.zero) extends Window {
  private[mullion] override val spec: WindowSpec = AroundWindow(before.micros, after.micros)
}

/** The windows that each row brings, in a column of structs or arrays of structs of `start` and `end`. */
final case class Custom(ranges: Column) extends Window {
  private[mullion] override val spec: WindowSpec = CustomWindow("each row's own")

  private[mullion] override def asked(options: WindowOptions): WindowOptions = options.withRanges(ranges)
}

/** Windows of so many rows of a key. */
final case class Count(size: Long, every: Long) extends Window {
  private[mullion] override val spec: WindowSpec = CountWindow(size, every)
}

object Count {
  def apply(size: Long): Count = Count(size, size)
}

/** One window for each key at a time, which closes when its trigger says so: `Global.every` and its like make them. */
final case class Global private[mullion] (trigger: GlobalTrigger, column: Option[Column]) extends Window {
  private[mullion] override val spec: WindowSpec = GlobalWindow(trigger)

  private[mullion] override def asked(options: WindowOptions): WindowOptions = column.fold(options)(options.withTrigger)
}

object Global {

  /** Closes with every so many rows. */
  def every(rows: Long): Global = Global(GlobalTrigger.Every(rows), None)

  /** Closes after a row for which a condition is true. */
  def when(condition: Column): Global = Global(GlobalTrigger.When, Some(condition))

  /** Closes where a value changes. */
  def changes(value: Column): Global = Global(GlobalTrigger.Changes, Some(value))
}
