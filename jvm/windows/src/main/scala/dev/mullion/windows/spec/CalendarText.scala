package dev.mullion.windows.spec

import java.time.format.TextStyle
import java.time.zone.ZoneRules
import java.time.{DateTimeException, DayOfWeek, Instant, LocalDateTime, ZoneId}
import java.util.Locale

import scala.jdk.CollectionConverters._

import dev.mullion.windows.WindowException

/** Calendar windows as text, their local times, and the checks of their parameters. */
private[spec] object CalendarText {
  private val MaxUnits = 10000

  /** The Monday of the epoch's week, as a day: 1970-01-01 was a Thursday. */
  val Monday: Int = -3

  def describe(window: CalendarWindow): String = {
    import window.{first, overlaps, shift, slides, zone}
    val ofDays = window.days > 0
    def step(n: Int) = if (ofDays) days(window.days * n, first) else months(window.months * n)
    val from = if (ofDays && window.days % 7 == 0 && first != 0) weekday(first) else ""
    val length = if (overlaps) s"sliding ${step(slides)} every ${step(1)}" else s"tumbling ${step(1)}"
    val fiscal = if (ofDays || first == 0) Nil else Seq(months(first))
    val offset = fiscal ++ Option.when(shift != 0)(Duration.describe(shift))
    s"$length by the calendar of $zone$from${if (offset.isEmpty) "" else offset.mkString(", offset ", " and ", "")}"
  }

  def describe(window: CumulativeWindow): String = {
    val step = window.steps match {
      case AlignedWindow(size, _, _)                => Duration.describe(size)
      case CalendarWindow(days, months, _, _, _, _) => counted(days, months)
      case other                                    => other.describe
    }
    window.cycles match {
      case AlignedWindow(size, _, offset) =>
        val shift = if (offset == 0) "" else s", offset ${Duration.describe(offset)}"
        s"cumulative ${Duration.describe(size)} in steps of $step$shift"
      case cycles => s"cumulative ${cycles.describe.stripPrefix("tumbling ")} in steps of $step"
    }
  }

  /** The time of a local time, in microseconds. One that clocks skip is the first instant after it; of one that occurs
    * twice, the first.
    */
  def timeOf(local: LocalDateTime, rules: ZoneRules): Long = {
    val instant = Option(rules.getTransition(local))
      .filter(_.isGap)
      .fold(local.toInstant(rules.getValidOffsets(local).asScala.headOption.getOrElse(rules.getOffset(local))))(
        _.getInstant
      )
    TimeMath.plus(TimeMath.times(instant.getEpochSecond, 1000000L), instant.getNano / 1000L)
  }

  def days(days: Int, first: Int): String =
    if (days % 7 == 0 && first != 0) counted(days / 7, "week") else counted(days, "day")

  def months(months: Int): String =
    if (months % 12 == 0) counted(months / 12, "year") else counted(months, "month")

  def weekday(first: Int): String = Math.floorMod(first - Monday, 7) match {
    case 0               => ""
    case daysAfterMonday =>
      s" from ${DayOfWeek.of(daysAfterMonday + 1).getDisplayName(TextStyle.FULL, Locale.ENGLISH)}"
  }

  /** A length of so many days or months. */
  def counted(days: Int, months: Int): String =
    if (days == 0) this.months(months) else if (days % 7 == 0) counted(days / 7, "week") else counted(days, "day")

  private def counted(n: Int, unit: String): String = s"$n $unit${if (n == 1) "" else "s"}"

  def positive(n: Int, what: String, slides: Int): Int =
    if (n > 0 && slides > 0 && n.toLong * slides <= MaxUnits) n
    else
      throw WindowException.invalid(
        s"The window's size is ${n.toLong * slides} $what: windows by the calendar have from 1 to $MaxUnits. Give, for " +
          "instance, 1."
      )

  /** The offset from the epoch of steps of a fixed length that start with each of `cycles`. Raises an error if the step
    * does not divide a day, or the change of clocks: the windows of such a day would end at other times of day.
    */
  def offsetOfSteps(cycles: CalendarWindow, step: Long): Long = {
    if (CalendarWindow.Day % step != 0)
      throw WindowException.invalid(
        s"The window's step of ${Duration.describe(step)} does not divide a day, with which windows by the calendar of " +
          s"${cycles.zone} start. Give a step that does, such as 1 hour, or a number of days."
      )
    val offsets = offsetsOf(cycles.zone)
    val change = offsets.map(at => BigInt(at - offsets.head)).reduce(_ gcd _).toLong
    if (change % step != 0)
      throw WindowException.invalid(
        s"The window's step of ${Duration.describe(step)} does not divide ${Duration.describe(change)}, by which clocks " +
          s"change in ${cycles.zone}: on such a day windows would end at other times of day. Give a step that divides it, such " +
          s"as ${Duration.describe(change)}, or a number of days."
      )
    Math.floorMod(cycles.shift - offsets.last, step)
  }

  /** The differences from UTC in a time zone since 2000, in microseconds; the last one is of the last rule. Earlier
    * ones differ by single minutes and seconds.
    */
  private def offsetsOf(zone: String): Seq[Long] = {
    val rules = ZoneId.of(zone).getRules
    val since = Instant.parse("2000-01-01T00:00:00Z")
    val changes = rules.getTransitions.asScala.filter(_.getInstant.isAfter(since)).map(_.getOffsetAfter)
    val yearly = rules.getTransitionRules.asScala.flatMap(rule => Seq(rule.getOffsetBefore, rule.getOffsetAfter))
    (rules.getOffset(since) +: (changes ++ yearly).toSeq).map(_.getTotalSeconds * 1000000L)
  }

  def checkedZone(zone: String): String =
    try ZoneId.of(zone).getId
    catch {
      case _: DateTimeException =>
        throw WindowException.invalid(
          s"'$zone' is not a time zone. Give one by its name in the IANA database, such as 'America/New_York' or " +
            "'UTC', or an offset such as '+02:00'."
        )
    }
}
