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

/** The windows that a row is in.
  *
  * @throws MullionException
  *   at construction, for a length that is not positive and similar errors
  */
sealed trait Window {
  private[mullion] def spec: WindowSpec

  /** Adds the columns of this window to the operator's options. */
  private[mullion] def applyTo(options: WindowOptions): WindowOptions = options
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

  /** Windows of `n` calendar days in a time zone such as `Europe/Berlin`, from midnight to midnight. */
  def days(n: Int, zone: String): Window = Calendar(n, "day", zone)

  /** Windows of `n` weeks, which begin on Monday. */
  def weeks(n: Int, zone: String): Window = Calendar(n, "week", zone)

  /** Windows of `n` months: three are a quarter, twelve a year. */
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

/** Windows of one length that start at each multiple of the slide. A row is in all windows that contain its time.
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

/** Sessions: rows of a key that are at most the gap apart.
  * {{{
  *   x x  x        x x
  *   |----------|  |------|
  * }}}
  */
final case class Session(gap: Span) extends Window {
  private[mullion] override val spec: WindowSpec = SessionWindow(Some(Span.positive("gap", gap)))
}

object Session {

  /** Sessions in which each row has its own gap, from a column of intervals. */
  def byRow(gap: Column): Window = SessionByRow(gap)
}

private[mullion] final case class SessionByRow(gap: Column) extends Window {
  private[mullion] override val spec: WindowSpec = SessionWindow(None)

  private[mullion] override def applyTo(options: WindowOptions): WindowOptions = options.withGap(gap)
}

/** A window around each row, from `before` its time to `after` it. */
final case class Around(before: Span, after: Span = Span.zero) extends Window {
  private[mullion] override val spec: WindowSpec = AroundWindow(before.micros, after.micros)
}

/** Windows that each row defines, in a column of structs or arrays of structs of `start` and `end`. */
final case class Custom(ranges: Column) extends Window {
  private[mullion] override val spec: WindowSpec = CustomWindow("each row's own")

  private[mullion] override def applyTo(options: WindowOptions): WindowOptions = options.withRanges(ranges)
}

/** Windows of a number of rows of a key. */
final case class Count(size: Long, every: Long) extends Window {
  private[mullion] override val spec: WindowSpec = CountWindow(size, every)
}

object Count {
  def apply(size: Long): Count = Count(size, size)
}

/** One window per key at a time, which a trigger closes. `Global.every` and its siblings create them. */
final case class Global private[mullion] (trigger: GlobalTrigger, column: Option[Column]) extends Window {
  private[mullion] override val spec: WindowSpec = GlobalWindow(trigger)

  private[mullion] override def applyTo(options: WindowOptions): WindowOptions =
    column.fold(options)(options.withTrigger)
}

object Global {

  /** Closes after each `rows` rows. */
  def every(rows: Long): Global = Global(GlobalTrigger.Every(rows), None)

  /** Closes after a row for which a condition is true. */
  def when(condition: Column): Global = Global(GlobalTrigger.When, Some(condition))

  /** Closes where a value changes. */
  def changes(value: Column): Global = Global(GlobalTrigger.Changes, Some(value))
}
