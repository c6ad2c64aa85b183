package dev.mullion.windows.spec

import java.time.DayOfWeek

import dev.mullion.windows.WindowException

/** The windows of a row. A window is a half-open interval `[start, end)` of event time; all times and lengths are
  * microseconds.
  */
sealed trait WindowSpec {

  /** The spec as text, for `explain()` and error messages. */
  def describe: String

  /** True if windows of a key may have one start and different ends. */
  def sharesStarts: Boolean = false
}

/** Windows on a grid over time, which exist independently of rows. */
sealed trait GridWindow extends WindowSpec {

  /** True if a row can be in more than one window. */
  def overlaps: Boolean

  /** True if a row can be in no window. */
  def hasGaps: Boolean

  /** True if `ts` is in a window. */
  def holds(ts: Long): Boolean

  /** The start of the last window that starts at or before `ts`. */
  def lastStart(ts: Long): Long

  /** The end of the window that starts at `start`, for windows without overlap. The first window of time may start
    * earlier.
    */
  def end(start: Long): Long

  /** The start of the last window that ends at or before `t`, for windows without overlap. */
  def startEndingBy(t: Long): Long

  def grid: SliceGrid
}

/** Windows of calendar days or months in a time zone. They start every `days` days or `months` months, and span
  * `slides` of these steps. A day lasts from midnight to midnight, 23 or 25 hours where clocks change. A start that
  * clocks skip is the first instant after it; of a local time that occurs twice, the first.
  *
  * @param days
  *   the number of days between starts, or 0
  * @param months
  *   the number of months between starts, or 0
  * @param slides
  *   the number of steps in a window; more than one if windows overlap
  * @param first
  *   a day on which a window starts, counted from the epoch; for windows of months, a month, counted from January 1970
  * @param shift
  *   the time after midnight of that day, or of the first day of that month, at which windows start; microseconds of
  *   local time
  * @param zone
  *   the time zone, by its id
  */
final case class CalendarWindow private (
    days: Int,
    months: Int,
    slides: Int,
    first: Int,
    shift: Long,
    zone: String
) extends GridWindow {
  override val grid: SliceGrid = new CalendarGrid(this)

  override def overlaps: Boolean = slides > 1

  override def hasGaps: Boolean = false

  override def holds(ts: Long): Boolean = true

  override def lastStart(ts: Long): Long = grid.windowStart(grid.windowAt(ts))

  override def end(start: Long): Long = grid.windowEnd(grid.windowAt(start))

  override def startEndingBy(t: Long): Long = grid.windowStart(grid.lastWindowEndingBy(t))

  /** The consecutive steps of these windows, of so many days or months. */
  private[spec] def inSteps(days: Int, months: Int): CalendarWindow =
    if (this.days > 0) copy(days = days, slides = 1)
    else if (months > 0) copy(months = months, slides = 1, first = Math.floorMod(first, months))
    else copy(days = days, months = 0, slides = 1, first = 0, shift = Math.floorMod(shift, CalendarWindow.Day))

  override def describe: String = CalendarText.describe(this)
}

object CalendarWindow {
  private[spec] val Day = 86400L * 1000000L
  // The average month of the Gregorian calendar, which repeats every 400 years.
  private[spec] val Month = 146097L * Day / 4800L
  // Each month has this many days.
  private val MaxDaysOffset = 27

  /** Windows of `days * slides` days that start every `days` days.
    *
    * @param offset
    *   the shift of the starts from midnight, counted from the epoch; microseconds of local time, of any length
    */
  def ofDays(days: Int, zone: String, slides: Int = 1, offset: Long = 0L): CalendarWindow =
    daily(CalendarText.positive(days, "days", slides), slides, first = 0, shift = 0, offset, zone)

  /** Windows of `weeks * slides` weeks that start every `weeks` weeks.
    *
    * @param start
    *   the first day of a week
    * @param offset
    *   the shift of the starts from midnight of that day; microseconds of local time, of any length
    */
  def ofWeeks(
      weeks: Int,
      zone: String,
      slides: Int = 1,
      start: DayOfWeek = DayOfWeek.MONDAY,
      offset: Long = 0L
  ): CalendarWindow =
    daily(
      CalendarText.positive(weeks, "weeks", slides) * 7,
      slides,
      CalendarText.Monday,
      start.getValue - 1,
      offset,
      zone
    )

  /** Windows of `months * slides` months that start every `months` months.
    *
    * @param offsetMonths
    *   the shift of the starts from January 1970; 3 for fiscal years from April
    * @param offset
    *   the shift from midnight of the first day of a month, less than 28 days; microseconds of local time
    */
  def ofMonths(
      months: Int,
      zone: String,
      slides: Int = 1,
      offsetMonths: Int = 0,
      offset: Long = 0L
  ): CalendarWindow = {
    if (offset < 0 || offset >= (MaxDaysOffset + 1) * Day)
      throw WindowException.invalid(
        s"The offset of windows of months is ${Duration.describe(offset)}: it must be at least 0 and less than 28 days, " +
          "because February has 28. Give a number of months, or a shorter duration."
      )
    val step = CalendarText.positive(months, "months", slides)
    new CalendarWindow(0, step, slides, Math.floorMod(offsetMonths, step), offset, CalendarText.checkedZone(zone))
  }

  /** The window recorded in state. */
  def of(days: Int, months: Int, slides: Int, first: Int, shift: Long, zone: String): CalendarWindow =
    new CalendarWindow(days, months, slides, first, shift, zone)

  private def daily(days: Int, slides: Int, first: Int, shift: Int, offset: Long, zone: String): CalendarWindow = {
    val shiftDays = Math.floorMod(shift + Math.floorDiv(offset, Day), days.toLong).toInt
    new CalendarWindow(days, 0, slides, first + shiftDays, Math.floorMod(offset, Day), CalendarText.checkedZone(zone))
  }
}

/** Windows that grow in steps from one start, as Flink SQL's `CUMULATE`: all windows of a cycle start with it, and one
  * ends after each step. A row is in each window of its cycle that ends after it.
  *
  * {{{
  *   Cumulate(6, 2)    |-|         |-|
  *                     |---|       |---|
  *                     |-----|     |-----|
  * }}}
  *
  * With calendar cycles, such as days in a time zone, steps are days or months of the same calendar, or a time that
  * divides every change of clocks there. A step belongs to the cycle in which it starts.
  *
  * @param cycles
  *   the cycles, one after another
  * @param steps
  *   the steps, whose ends are the ends of the windows
  */
final case class CumulativeWindow private (cycles: GridWindow, steps: GridWindow) extends GridWindow {
  override val grid: SliceGrid = new CumulativeGrid(cycles.grid, steps.grid)

  override def overlaps: Boolean = cycles != steps

  override def hasGaps: Boolean = false

  override def sharesStarts: Boolean = overlaps

  override def holds(ts: Long): Boolean = true

  override def lastStart(ts: Long): Long = grid.windowStart(grid.ordinalOf(ts))

  /** The end of the last window that starts at `start`. */
  override def end(start: Long): Long = grid.windowEnd(grid.windowAt(start))

  override def startEndingBy(t: Long): Long = grid.windowStart(grid.lastWindowEndingBy(t))

  override def describe: String = CalendarText.describe(this)
}

object CumulativeWindow {
  def apply(size: Long, step: Long, offset: Long = 0L): CumulativeWindow = {
    AlignedWindow.requirePositive("size", size)
    AlignedWindow.requirePositive("step", step)
    if (size % step != 0) throw notDividing(Duration.describe(step), Duration.describe(size))
    new CumulativeWindow(AlignedWindow.tumbling(size, offset), AlignedWindow.tumbling(step, offset))
  }

  /** Windows in calendar cycles, in steps of a time. */
  def byCalendar(cycles: CalendarWindow, step: Long): CumulativeWindow = {
    AlignedWindow.requirePositive("step", step)
    val offset = CalendarText.offsetOfSteps(cycles, step)
    new CumulativeWindow(cycles, AlignedWindow.tumbling(step, offset))
  }

  /** Windows in calendar cycles, in steps of so many days or months. */
  def byCalendar(cycles: CalendarWindow, days: Int, months: Int): CumulativeWindow = {
    val divides =
      if (days > 0) if (cycles.days > 0) cycles.days % days == 0 else days == 1
      else months > 0 && cycles.months > 0 && cycles.months % months == 0
    if (!divides)
      throw notDividing(CalendarText.counted(days, months), CalendarText.counted(cycles.days, cycles.months))
    new CumulativeWindow(cycles, cycles.inSteps(days, months))
  }

  private def notDividing(step: String, size: String) = WindowException.invalid(
    s"The window's step of $step does not divide its size of $size. Give a step that does, such as 1 hour for a size of " +
      "1 day."
  )
}

/** Windows aligned to the epoch. They start on the grid `offset + k * slide` and are `size` long:
  *
  * {{{
  *   Tumbling(4)            Sliding(6, 4)               Sliding(2, 4): a gap between windows
  *   |---|---|---|          |-----|                     |-|   |-|   |-|
  *                              |-----|
  * }}}
  *
  * @param size
  *   the length of a window, > 0
  * @param slide
  *   the distance between the starts of consecutive windows, > 0
  * @param offset
  *   the shift of the grid of starts, in `[0, slide)`
  */
final case class AlignedWindow private (size: Long, slide: Long, offset: Long) extends GridWindow {

  override def overlaps: Boolean = slide < size

  override def hasGaps: Boolean = slide > size

  override def holds(ts: Long): Boolean = !hasGaps || TimeMath.pastGrid(ts, slide, offset) < size

  override def lastStart(ts: Long): Long = TimeMath.floor(ts, slide, offset)

  override def startEndingBy(t: Long): Long = TimeMath.minus(t, size)

  override def grid: SliceGrid = new EvenGrid(this)

  override def end(start: Long): Long =
    if (start == Long.MinValue) TimeMath.plus(start, size - TimeMath.pastGrid(start, slide, offset))
    else TimeMath.plus(start, size)

  override def describe: String = {
    val shift = if (offset == 0) "" else s", offset ${Duration.describe(offset)}"
    if (slide == size) s"tumbling ${Duration.describe(size)}$shift"
    else s"sliding ${Duration.describe(size)} every ${Duration.describe(slide)}$shift"
  }
}

object AlignedWindow {

  /** Windows that follow one another without overlap or gap. */
  def tumbling(size: Long, offset: Long = 0L): AlignedWindow = sliding(size, size, offset)

  /** Windows of `size` that start every `slide`. */
  def sliding(size: Long, slide: Long, offset: Long = 0L): AlignedWindow = {
    requirePositive("size", size)
    requirePositive("slide", slide)
    new AlignedWindow(size, slide, Math.floorMod(offset, slide))
  }

  private[spec] def requirePositive(name: String, us: Long): Unit =
    if (us <= 0)
      throw WindowException.invalid(
        s"The window's $name is ${Duration.describe(us)}: a window needs a $name of at least 1 microsecond. " +
          s"Give a positive duration, such as ${Setting.text(name, "10 seconds")}."
      )
}

/** A window around each row, from `before` its time to `after` it, both inclusive. Rows of one key and one time share a
  * window.
  *
  * {{{
  *   before 2, after 1     rows        x  x      x
  *                         windows   |---|
  *                                      |---|
  *                                             |---|
  * }}}
  *
  * As a half-open interval a window is `[t - before, t + after + 1 microsecond)`. These are the sliding windows of
  * Faust and of Kafka Streams.
  *
  * @param before
  *   the reach of a window before its row, >= 0
  * @param after
  *   the reach of a window after its row, >= 0
  */
final case class AroundWindow(before: Long, after: Long) extends WindowSpec {
  for ((name, us) <- Seq("before" -> before, "after" -> after) if us < 0)
    throw WindowException.invalid(
      s"The window's $name is ${Duration.describe(us)}: a window around a row contains the row. Give a duration of 0 or more, " +
        s"such as ${Setting.text(name, "10 seconds")}."
    )

  override def describe: String =
    s"from ${Duration.describe(before)} before to ${Duration.describe(after)} after each row"
}

/** Windows of activity. A single row makes the session `[ts, ts + gap)`; sessions of one key that touch are merged:
  *
  * {{{
  *   gap 3     rows     x x  x         x    x  x
  *             sessions |-------|      |-|  |-----|      (a gap is as long as `--`)
  * }}}
  *
  * A row exactly at the end of a session still joins it, as in Spark's `session_window` and in Bytewax.
  *
  * @param gap
  *   the inactivity that ends a session, > 0; none if each row has its own
  */
final case class SessionWindow(gap: Option[Long]) extends WindowSpec {
  gap.filter(_ <= 0).foreach { us =>
    throw WindowException.invalid(
      s"The session's gap is ${Duration.describe(us)}: a session needs a gap of at least 1 microsecond. " +
        s"Give a positive duration, such as ${Setting.text("gap", "10 minutes")}."
    )
  }

  override def describe: String = s"session with a gap of ${gap.fold(SessionWindow.EachRowsOwn)(Duration.describe)}"
}

object SessionWindow {

  /** The gap in texts, if each row has its own. */
  val EachRowsOwn: String = "each row's own"
}

/** Windows of a key, one after another, whose bounds depend on the order of its rows: sessions that end early, and
  * windows that begin with a row.
  *
  * {{{
  *   rows, with a logout at L          x  x L  x        x x x x x x x x
  *   session, gap 3, ends with L       |----|  |--|     |-----------------|
  *   session, gap 3, at most 6         |-------||-|     |-----||-----||---|
  *   tumbling 6 from the first row     |-----|  |-----| |-----||-----||-----|
  * }}}
  *
  * The rows of one batch are taken in order of time, and of arrival where times are equal. A row of a later batch joins
  * the window that it falls into, and does not change where that window was split from another.
  *
  * @param gap
  *   the inactivity that ends a window; none if each row has its own
  * @param maxLength
  *   the longest window, > 0; a row at that distance from the start begins the next one
  * @param endsWithRow
  *   whether a window ends with a row for which a condition is true, that row included
  * @param fromFirstRow
  *   whether windows are `maxLength` long and keep the start of their first row; else earlier rows move the start
  */
final case class OrderedWindow private (
    gap: Option[Long],
    maxLength: Option[Long],
    endsWithRow: Boolean,
    fromFirstRow: Boolean
) extends WindowSpec {
  override def describe: String =
    if (fromFirstRow) s"tumbling ${maxLength.fold("")(Duration.describe)} from the first row of a key"
    else {
      val atMost = maxLength.map(us => s", at most ${Duration.describe(us)} long")
      val ends = Option.when(endsWithRow)(", ending with a row for which its condition is true")
      s"${SessionWindow(gap).describe}${atMost.getOrElse("")}${ends.getOrElse("")}"
    }
}

object OrderedWindow {

  /** Sessions that end early, by at least one of the two rules. */
  def session(gap: Option[Long], maxLength: Option[Long], endsWithRow: Boolean): OrderedWindow = {
    SessionWindow(gap)
    maxLength.filter(_ <= 0).foreach { us =>
      throw WindowException.invalid(
        s"The session's longest length is ${Duration.describe(us)}: it must be at least 1 microsecond. Give a positive " +
          s"duration, such as ${Setting.text("max_length", "6 hours")}."
      )
    }
    for (us <- maxLength; pause <- gap if us < pause)
      throw WindowException.invalid(
        s"The session's longest length of ${Duration.describe(us)} is shorter than its gap of ${Duration.describe(pause)}, so " +
          s"no pause would ever end a session. Give a longer one, or use ${Setting.FromFirstRow}."
      )
    new OrderedWindow(gap, maxLength, endsWithRow, fromFirstRow = false)
  }

  /** Windows of `size`, each from the first row that is in no other. */
  def fromFirstRow(size: Long): OrderedWindow = {
    AlignedWindow.requirePositive("size", size)
    new OrderedWindow(Some(size), Some(size), endsWithRow = false, fromFirstRow = true)
  }
}

/** Windows that each row defines: every range of a list computed from the row.
  *
  * @param ranges
  *   the source of the list as text: a SQL expression, or the name of a function
  */
final case class CustomWindow(ranges: String) extends WindowSpec {
  override def sharesStarts: Boolean = true

  override def describe: String = s"custom by $ranges"
}

/** Windows of row numbers: the rows of a key are numbered from 0 in order of arrival. Without a clock no row is late,
  * and a window closes with the row that completes it.
  */
sealed trait RowNumberWindow extends WindowSpec

/** Windows of `size` rows that start every `every` rows:
  *
  * {{{
  *   Count(3)        Count(3, every = 2)      Count(2, every = 3): each third row is in no window
  *   [0 1 2][3 4 5]  [0 1 [2] 3 [4] 5 ...     [0 1] 2 [3 4] 5
  * }}}
  *
  * @param timeout
  *   the wall time after the first row of a window at which it closes incomplete; the next row begins another one
  */
final case class CountWindow(size: Long, every: Long, timeout: Option[Long] = None) extends RowNumberWindow {
  require(Setting("size", "size", "length"), size)
  require(Setting.same("every"), every)
  timeout.filter(_ <= 0).foreach { us =>
    throw WindowException.invalid(
      s"The window's timeout is ${Duration.describe(us)}: it must be at least 1 microsecond. Give a positive duration, " +
        s"such as ${Setting.text("timeout", "10 seconds")}."
    )
  }
  if (timeout.isDefined && every != size)
    throw WindowException.unsupported(
      s"${Setting.Timeout} with windows of $size rows every $every: where a timeout closes one, the starts of the others " +
        s"would move. Leave ${Setting.named("every")} out."
    )

  private def require(name: Setting, rows: Long): Unit =
    if (rows <= 0)
      throw WindowException.invalid(
        s"The window's $name is $rows rows: it must be at least 1. Give a positive number of rows, such as " +
          s"${Setting.number(name.toString, 100)}."
      )

  override def describe: String = {
    val closes = timeout.fold("")(us => s", or fewer after ${Duration.describe(us)}")
    if (every == size) s"count of $size rows$closes" else s"count of $size rows every $every"
  }
}

/** Consecutive windows, each closed by a trigger: the next one begins where one closes.
  *
  * @param endsWith
  *   whether a window also closes after a row with which a condition over its contents becomes true
  */
final case class GlobalWindow(trigger: GlobalTrigger, endsWith: Boolean = false) extends RowNumberWindow {
  override def describe: String =
    s"global, ${trigger.describe}${if (endsWith) ", or with its condition" else ""}"
}
