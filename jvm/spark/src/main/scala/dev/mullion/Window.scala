package dev.mullion

import java.time.DayOfWeek

import org.apache.spark.sql.Column
import org.apache.spark.sql.mullion.plan.options.WindowOptions

import dev.mullion.windows.spec.{
  AlignedWindow,
  AroundWindow,
  CalendarWindow,
  CountWindow,
  CumulativeWindow,
  CustomWindow,
  Duration,
  GlobalTrigger,
  GlobalWindow,
  OrderedWindow,
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
  private[mullion] override val spec: WindowSpec = AlignedWindow.tumbling(size.micros, offset.micros)
}

object Tumbling {

  /** Windows that start with a row of their key instead of on a grid: its first row, and each one that is in no earlier
    * window.
    */
  def fromFirstRow(size: Span): Window = FromFirstRow(size)

  /** Windows of `n` calendar days in a time zone such as `Europe/Berlin`.
    *
    * @param offset
    *   the local time at which they start, after midnight
    */
  def days(n: Int, zone: String, offset: Span = Span.zero): Window =
    Calendar(CalendarWindow.ofDays(n, zone, offset = offset.micros))

  /** Windows of `n` weeks.
    *
    * @param start
    *   the first day of a week
    * @param offset
    *   the local time at which they start, after midnight of that day
    */
  def weeks(n: Int, zone: String, start: DayOfWeek = DayOfWeek.MONDAY, offset: Span = Span.zero): Window =
    Calendar(CalendarWindow.ofWeeks(n, zone, start = start, offset = offset.micros))

  /** Windows of `n` months: three are a quarter, twelve a year.
    *
    * @param offsetMonths
    *   the shift of the starts from January; 3 for fiscal years from April
    * @param offset
    *   the shift from midnight of the first day of a month, less than 28 days
    */
  def months(n: Int, zone: String, offsetMonths: Int = 0, offset: Span = Span.zero): Window =
    Calendar(CalendarWindow.ofMonths(n, zone, offsetMonths = offsetMonths, offset = offset.micros))
}

/** Windows of one length that start with a row of their key. */
private[mullion] final case class FromFirstRow(size: Span) extends Window {
  private[mullion] override val spec: WindowSpec = OrderedWindow.fromFirstRow(size.micros)
}

/** Windows of whole days, weeks or months of a calendar. */
private[mullion] final case class Calendar(override val spec: WindowSpec) extends Window

/** Windows of one length that start at each multiple of the slide. A row is in all windows that contain its time.
  * {{{
  *   |--------|
  *      |--------|
  *         |--------|
  * }}}
  */
final case class Sliding(size: Span, slide: Span, offset: Span = Span.zero, gaps: Boolean = false) extends Window {
  private[mullion] override val spec: WindowSpec = {
    val window = AlignedWindow.sliding(size.micros, slide.micros, offset.micros)
    if (window.hasGaps && !gaps)
      throw MullionException.invalid(
        s"The slide of ${Duration.describe(window.slide)} is longer than the size of ${Duration.describe(window.size)}, so rows " +
          "between two windows would be in none. Size comes first: Sliding(size, slide). If the gaps are intended, add " +
          "gaps = true."
      )
    window
  }
}

object Sliding {

  /** Windows of `size` calendar days that start every `slide` days, which divide `size`; see `Tumbling.days`. */
  def days(size: Int, slide: Int, zone: String, offset: Span = Span.zero): Window =
    Calendar(CalendarWindow.ofDays(slide, zone, slides(size, slide), offset.micros))

  /** Windows of `size` weeks that start every `slide` weeks, which divide `size`; see `Tumbling.weeks`. */
  def weeks(
      size: Int,
      slide: Int,
      zone: String,
      start: DayOfWeek = DayOfWeek.MONDAY,
      offset: Span = Span.zero
  ): Window =
    Calendar(CalendarWindow.ofWeeks(slide, zone, slides(size, slide), start, offset.micros))

  /** Windows of `size` months that start every `slide` months, which divide `size`; see `Tumbling.months`. */
  def months(size: Int, slide: Int, zone: String, offsetMonths: Int = 0, offset: Span = Span.zero): Window =
    Calendar(CalendarWindow.ofMonths(slide, zone, slides(size, slide), offsetMonths, offset.micros))

  private def slides(size: Int, slide: Int): Int =
    if (size < 1 || slide < 1)
      throw MullionException.invalid(
        s"The window's size is $size and its slide is $slide: both must be at least 1. Give, for instance, size = 7 and " +
          "slide = 1."
      )
    else if (size % slide == 0) size / slide
    else
      throw MullionException.invalid(
        s"The slide of $slide does not divide the size of $size. Give calendar windows a slide that does, such as 1."
      )
}

/** Windows that grow in steps from one start: those of a cycle of `size` start with it, and one ends after each `step`,
  * which divides `size`.
  * {{{
  *   |-|     |-|
  *   |---|   |---|
  *   |-----| |-----|
  * }}}
  */
final case class Cumulate(size: Span, step: Span, offset: Span = Span.zero) extends Window {
  private[mullion] override val spec: WindowSpec =
    CumulativeWindow(size.micros, step.micros, offset.micros)
}

object Cumulate {

  /** Windows that grow in steps of a time from the start of each calendar window, such as a day in a time zone.
    *
    * @param cycle
    *   `Tumbling.days`, `.weeks` or `.months`
    * @param step
    *   divides a day, and each change of clocks in the time zone
    */
  def within(cycle: Window, step: Span): Window =
    Calendar(CumulativeWindow.byCalendar(calendarOf(cycle), step.micros))

  /** The same in steps of so many days, which divide the days of the cycle. In a month, a step is 1 day. */
  def withinByDays(cycle: Window, days: Int): Window =
    Calendar(CumulativeWindow.byCalendar(calendarOf(cycle), positive("days", days), months = 0))

  /** The same in steps of so many months, which divide the months of the cycle. */
  def withinByMonths(cycle: Window, months: Int): Window =
    Calendar(CumulativeWindow.byCalendar(calendarOf(cycle), days = 0, positive("months", months)))

  private def positive(unit: String, n: Int): Int =
    if (n > 0) n
    else
      throw MullionException.invalid(s"The window's step is $n $unit: it must be at least 1. Give $unit = 1 or more.")

  private def calendarOf(cycle: Window): CalendarWindow = cycle.spec match {
    case calendar: CalendarWindow if calendar.slides == 1 => calendar
    case other                                            =>
      throw MullionException.invalid(
        s"The cycle is ${other.describe}, which is no calendar window. Give Tumbling.days, .weeks or .months, such as " +
          "Tumbling.days(1, \"Europe/Berlin\"), or write Cumulate(size, step)."
      )
  }
}

/** Sessions: rows of a key that are at most the gap apart.
  * {{{
  *   x x  x        x x
  *   |----------|  |------|
  * }}}
  */
final case class Session(gap: Span) extends Window {
  private[mullion] override val spec: WindowSpec = SessionWindow(Some(gap.micros))

  /** Sessions that are at most so long: a row at that distance from the start begins the next one. */
  def maxLength(length: Span): EndingSession = EndingSession(Left(gap), Some(length), None)

  /** Sessions that also end with a row for which a condition is true; that row is their last. */
  def endsWith(condition: Column): EndingSession = EndingSession(Left(gap), None, Some(condition))
}

object Session {

  /** Sessions in which each row has its own gap, from a column of intervals. */
  def byRow(gap: Column): SessionByRow = SessionByRow(gap)
}

/** Sessions in which each row has its own gap; `Session.byRow` creates them. */
final case class SessionByRow private[mullion] (gap: Column) extends Window {
  private[mullion] override val spec: WindowSpec = SessionWindow(None)

  private[mullion] override def applyTo(options: WindowOptions): WindowOptions = options.withGap(gap)

  /** Sessions that are at most so long: a row at that distance from the start begins the next one. */
  def maxLength(length: Span): EndingSession = EndingSession(Right(gap), Some(length), None)

  /** Sessions that also end with a row for which a condition is true; that row is their last. */
  def endsWith(condition: Column): EndingSession = EndingSession(Right(gap), None, Some(condition))
}

/** Sessions that may end before the gap does: `maxLength` and `endsWith` of a session create them. */
final case class EndingSession private[mullion] (
    gap: Either[Span, Column],
    longest: Option[Span],
    condition: Option[Column]
) extends Window {
  private[mullion] override val spec: WindowSpec = OrderedWindow.session(
    gap.left.toOption.map(_.micros),
    longest.map(_.micros),
    condition.isDefined
  )

  private[mullion] override def applyTo(options: WindowOptions): WindowOptions =
    condition.foldLeft(gap.fold(_ => options, options.withGap))(_.withTrigger(_))

  /** The same, at most so long. */
  def maxLength(length: Span): EndingSession = copy(longest = Some(length))

  /** The same, also ending with a row for which a condition is true. */
  def endsWith(condition: Column): EndingSession = copy(condition = Some(condition))
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
final case class Count(size: Long, every: Long, forgetAfter: Option[Span] = None) extends Window {
  private[mullion] override val spec: WindowSpec = CountWindow(size, every)
  applyTo(WindowOptions()) // raises an error for an invalid length

  /** With the wall time without rows after which a key is forgotten, and its open panes close. */
  def forgettingAfter(time: Span): Count = copy(forgetAfter = Some(time))

  private[mullion] override def applyTo(options: WindowOptions): WindowOptions =
    forgetAfter.fold(options)(time => options.withForgetAfter(time.micros))

  /** The same, or fewer rows: a window also closes when this wall time has passed since its first row. */
  def timeout(after: Span): CountUntil = CountUntil(this, after)
}

/** Windows of a number of rows, or of the rows of a wall time; `Count(...).timeout` creates them. */
final case class CountUntil private[mullion] (rows: Count, after: Span) extends Window {
  private[mullion] override val spec: WindowSpec =
    CountWindow(rows.size, rows.every, Some(after.micros))

  private[mullion] override def applyTo(options: WindowOptions): WindowOptions = rows.applyTo(options)
}

object Count {
  def apply(size: Long): Count = Count(size, size)
}

/** One window per key at a time, which a trigger closes. `Global.every` and its siblings create them. */
final case class Global private[mullion] (
    trigger: GlobalTrigger,
    column: Option[Column],
    condition: Option[Column] = None,
    forgetAfter: Option[Span] = None
) extends Window {
  private[mullion] override val spec: WindowSpec = GlobalWindow(trigger, condition.isDefined)
  applyTo(WindowOptions()) // raises an error for an invalid length

  private[mullion] override def applyTo(options: WindowOptions): WindowOptions = {
    val closing = condition.foldLeft(column.fold(options)(options.withTrigger))(_.withEndsWith(_))
    forgetAfter.fold(closing)(time => closing.withForgetAfter(time.micros))
  }

  /** With the wall time without rows after which a key is forgotten, and its open pane closes. */
  def forgettingAfter(time: Span): Global = copy(forgetAfter = Some(time))

  /** The same, also closing after a row with which a condition becomes true: over that row, or over aggregates of the
    * window, such as `sum("v") > 100`.
    */
  def endsWith(condition: Column): Global =
    if (trigger != GlobalTrigger.When) copy(condition = Some(condition))
    else
      throw MullionException.invalid(
        "Global.when closes a window by its condition already. Join the two with ||, as in Global.when(one || other)."
      )
}

object Global {

  /** Closes after each `rows` rows. */
  def every(rows: Long): Global = Global(GlobalTrigger.Every(rows), None)

  /** Closes after a row for which a condition is true, or with which one over aggregates of the window becomes true. */
  def when(condition: Column): Global = Global(GlobalTrigger.When, Some(condition))

  /** Closes where a value changes. */
  def changes(value: Column): Global = Global(GlobalTrigger.Changes, Some(value))
}
