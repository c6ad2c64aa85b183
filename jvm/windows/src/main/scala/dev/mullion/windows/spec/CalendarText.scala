package dev.mullion.windows.spec

import java.time.DayOfWeek
import java.time.format.TextStyle
import java.util.Locale

/** The lengths and the first days of calendar windows, as text. */
private[spec] object CalendarText {

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
}
