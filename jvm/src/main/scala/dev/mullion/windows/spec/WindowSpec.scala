package dev.mullion.windows.spec

import java.time.{DateTimeException, LocalDate, ZoneId}

import dev.mullion.MullionException

/** The windows of a row. A window is a half-open interval `[start, end)` of event time; all times and lengths are
  * microseconds.
  */
sealed trait WindowSpec {

  /** The spec as text, for `explain()` and error messages. */
  def describe: String
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

/** Windows of calendar days or months in a time zone. A day lasts from midnight to midnight, 23 or 25 hours where
  * clocks change. Weeks start on Monday; quarters and years start on their first day.
  *
  * @param days
  *   the number of days of a window, or 0
  * @param months
  *   the number of months of a window, or 0
  * @param first
  *   for windows of days, a day on which one starts, counted from the epoch
  * @param zone
  *   the time zone, by its id
  */
final case class CalendarWindow private (days: Int, months: Int, first: Int, zone: String) extends GridWindow {
  @transient private lazy val zoneId = ZoneId.of(zone)

  private val average = if (days > 0) days * CalendarWindow.Day else months * CalendarWindow.Month

  override val grid: SliceGrid = new CalendarGrid(this)

  override def overlaps: Boolean = false

  override def hasGaps: Boolean = false

  override def holds(ts: Long): Boolean = true

  override def lastStart(ts: Long): Long = grid.windowStart(grid.windowAt(ts))

  override def end(start: Long): Long = grid.windowEnd(grid.windowAt(start))

  override def startEndingBy(t: Long): Long = grid.windowStart(grid.lastWindowEndingBy(t))

  /** A window at most a few from the one that holds `ts`. */
  private[windows] def near(ts: Long): Long = Math.floorDiv(TimeMath.minus(ts, first * CalendarWindow.Day), average)

  /** The start of a window, clamped to the range of time. */
  private[windows] def start(window: Long): Long = {
    val most = Long.MaxValue / average + 2
    if (window > most) Long.MaxValue
    else if (window < -most) Long.MinValue
    else {
      val date =
        if (days > 0) LocalDate.ofEpochDay(first + window * days)
        else LocalDate.EPOCH.plusMonths(window * months)
      val instant = date.atStartOfDay(zoneId).toInstant
      TimeMath.plus(TimeMath.times(instant.getEpochSecond, 1000000L), instant.getNano / 1000L)
    }
  }

  override def describe: String = {
    def of(n: Int, one: String) = s"$n $one${if (n == 1) "" else "s"}"
    val size =
      if (months > 0 && months % 12 == 0) of(months / 12, "year")
      else if (months > 0) of(months, "month")
      else if (first != 0) of(days / 7, "week")
      else of(days, "day")
    s"tumbling $size by the calendar of $zone"
  }
}

object CalendarWindow {
  private val Day = 86400L * 1000000L
  // The average month of the Gregorian calendar, which repeats every 400 years.
  private val Month = 146097L * Day / 4800L
  private val Monday = -3

  /** Windows of `days` days from midnight, counted from the epoch. */
  def ofDays(days: Int, zone: String): CalendarWindow =
    new CalendarWindow(positive(days, "days"), 0, 0, checkedZone(zone))

  /** Windows of `weeks` weeks from Monday. */
  def ofWeeks(weeks: Int, zone: String): CalendarWindow =
    new CalendarWindow(positive(weeks, "weeks") * 7, 0, Monday, checkedZone(zone))

  /** Windows of `months` months, counted from a January. */
  def ofMonths(months: Int, zone: String): CalendarWindow =
    new CalendarWindow(0, positive(months, "months"), 0, checkedZone(zone))

  /** The window recorded in state. */
  def of(days: Int, months: Int, first: Int, zone: String): CalendarWindow =
    new CalendarWindow(days, months, first, zone)

  private def positive(n: Int, what: String): Int =
    if (n > 0 && n <= 10000) n
    else
      throw MullionException.invalid(
        s"The window's size is $n $what: windows by the calendar have from 1 to 10000. Give, for instance, 1."
      )

  private def checkedZone(zone: String): String =
    try ZoneId.of(zone).getId
    catch {
      case _: DateTimeException =>
        throw MullionException.invalid(
          s"'$zone' is not a time zone. Give one by its name in the IANA database, such as 'America/New_York' or " +
            "'UTC', or an offset such as '+02:00'."
        )
    }
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

  private def requirePositive(name: String, us: Long): Unit =
    if (us <= 0)
      throw MullionException.invalid(
        s"The window's $name is ${Duration.describe(us)}: a window needs a $name of at least 1 microsecond. " +
          s"Give a positive duration, such as '10 seconds'."
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
    throw MullionException.invalid(
      s"The window's $name is ${Duration.describe(us)}: a window about a row holds the row. Give a duration of 0 or more, " +
        "such as Around('10 seconds', '0 seconds')."
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
    throw MullionException.invalid(
      s"The session's gap is ${Duration.describe(us)}: a session needs a gap of at least 1 microsecond. " +
        "Give a positive duration, such as Session('10 minutes')."
    )
  }

  override def describe: String = s"session with a gap of ${gap.fold("each row's own")(Duration.describe)}"
}

/** Windows that each row defines: every range of a list computed from the row.
  *
  * @param ranges
  *   the source of the list as text: a SQL expression, or the name of a function
  */
final case class CustomWindow(ranges: String) extends WindowSpec {
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
  */
final case class CountWindow(size: Long, every: Long) extends RowNumberWindow {
  require("size", size)
  require("every", every)

  private def require(name: String, rows: Long): Unit =
    if (rows <= 0)
      throw MullionException.invalid(
        s"The window's $name is $rows rows: it must be at least 1. Give a positive number of rows, such as Count(100)."
      )

  override def describe: String = if (every == size) s"count of $size rows" else s"count of $size rows every $every"
}

/** Consecutive windows, each closed by a trigger: the next one begins where one closes. */
final case class GlobalWindow(trigger: GlobalTrigger) extends RowNumberWindow {
  override def describe: String = s"global, ${trigger.describe}"
}

/** The trigger that closes a global window. */
sealed trait GlobalTrigger {
  def describe: String
}

object GlobalTrigger {

  /** After each `rows` rows. */
  final case class Every(rows: Long) extends GlobalTrigger {
    if (rows <= 0)
      throw MullionException.invalid(
        s"The window would close every $rows rows: it must be at least 1. Give a positive number of rows, such as " +
          "Global.every(100)."
      )

    override def describe: String = s"closing every $rows rows"
  }

  /** After a row for which a condition is true. */
  case object When extends GlobalTrigger {
    override def describe: String = "closing after a row for which its condition is true"
  }

  /** Before a row with another value than the previous row's. */
  case object Changes extends GlobalTrigger {
    override def describe: String = "closing where its column changes"
  }

  /** At the split points that a function of the buffered rows returns. It is called once per batch.
    *
    * @param function
    *   its name, which identifies it
    */
  final case class Split(function: String) extends GlobalTrigger {
    override def describe: String = s"split by the function $function"
  }
}
