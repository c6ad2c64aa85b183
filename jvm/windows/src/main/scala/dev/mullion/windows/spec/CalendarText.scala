package dev.mullion.windows.spec

import java.time.format.TextStyle
import java.time.{DateTimeException, DayOfWeek, ZoneId}
import java.util.Locale

import dev.mullion.windows.WindowException

/** The lengths and the first days of calendar windows, as text, and the checks of their parameters. */
private[spec] object CalendarText {
  private val MaxUnits = 10000

  /** The Monday of the epoch's week, as a day: 1970-01-01 was a Thursday. */
  val Monday: Int = -3

  def days(days: Int, first: Int): String =
    if (days % 7 == 0 && first != 0) counted(days / 7, "week") else counted(days, "day")

  def months(months: Int): String =
    if (months % 12 == 0) counted(months / 12, "year") else counted(months, "month")

  def weekday(first: Int): String = Math.floorMod(first - Monday, 7) match {
    case 0               => ""
    case daysAfterMonday =>
      s" from ${DayOfWeek.of(daysAfterMonday + 1).getDisplayName(TextStyle.FULL, Locale.ENGLISH)}"
  }

  private def counted(n: Int, unit: String): String = s"$n $unit${if (n == 1) "" else "s"}"

  def positive(n: Int, what: String, slides: Int): Int =
    if (n > 0 && slides > 0 && n.toLong * slides <= MaxUnits) n
    else
      throw WindowException.invalid(
        s"The window's size is ${n.toLong * slides} $what: windows by the calendar have from 1 to $MaxUnits. Give, for " +
          "instance, 1."
      )

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
