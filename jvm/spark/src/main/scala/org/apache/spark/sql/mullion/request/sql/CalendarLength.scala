package org.apache.spark.sql.mullion.request.sql

import java.util.Locale

/** Lengths of calendar windows as text, such as `1 quarter`. Python accepts the same. */
private[request] object CalendarLength {
  private val form = "(-?[1-9][0-9]{0,3})\\s+(day|week|month|quarter|year)s?".r

  /** The number of days, weeks or months, with the unit; quarters and years are months. */
  def of(text: String): Option[(Long, String)] = text.trim.toLowerCase(Locale.ROOT) match {
    case form(number, "quarter") => Some((number.toInt * 3L, "month"))
    case form(number, "year")    => Some((number.toInt * 12L, "month"))
    case form(number, unit)      => Some((number.toLong, unit))
    case _                       => None
  }

  /** The number of slides in a window, if the slide divides the size. */
  def slides(size: (Long, String), slide: (Long, String)): Option[Long] = {
    def plain(length: (Long, String)) = if (length._2 == "week") (length._1 * 7, "day") else length
    val ((s, sizeUnit), (d, slideUnit)) = (plain(size), plain(slide))
    Option.when(sizeUnit == slideUnit && s > 0 && d > 0 && s % d == 0)(s / d)
  }
}
