package org.apache.spark.sql.mullion.expressions.columns

import java.time.{LocalDate, ZoneOffset}

import com.fasterxml.jackson.core.JsonParser

import org.apache.spark.sql.catalyst.json.JSONOptions

/** Reads times in the usual form of ISO 8601, as Spark does if no format is set:
  * `2026-01-02T03:04:05[.123456](Z|+01:00)`. A blank may stand for the T. The offset may be absent if that of the
  * session's time zone is always the same.
  *
  * @param isDefault
  *   true if no format is set
  * @param offset
  *   the session's offset from UTC in seconds, or [[PlainTimes.Other]] if it changes
  */
private[columns] final class PlainTimes private (isDefault: Boolean, offset: Long) {
  import PlainTimes._

  /** The microseconds since the epoch of the text that the parser is at, or [[PlainTimes.Other]] for another form. */
  def micros(parser: JsonParser): Long = {
    val length = parser.getTextLength
    if (!isDefault || length < Seconds || length > Longest) Other
    else micros(parser.getTextCharacters, parser.getTextOffset, length)
  }

  private[columns] def micros(text: Array[Char], start: Int, length: Int): Long = {
    val year = digits(text, start, 4)
    val month = digits(text, start + 5, 2)
    val day = digits(text, start + 8, 2)
    val hour = digits(text, start + 11, 2)
    val minute = digits(text, start + 14, 2)
    val second = digits(text, start + 17, 2)
    val between = text(start + 10)
    val isTime = (year | month | day | hour | minute | second) >= 0 && year > 0 && month >= 1 && month <= 12 &&
      day >= 1 && hour < 24 && minute < 60 && second < 60 &&
      text(start + 4) == '-' && text(start + 7) == '-' && (between == 'T' || between == ' ') &&
      text(start + 13) == ':' && text(start + 16) == ':'
    if (!isTime || (day > 28 && day > daysOf(year, month))) Other
    else {
      val end = start + length
      var at = start + Seconds
      var fraction = 0
      if (at < end && text(at) == '.') {
        var factor = 100000
        at += 1
        while (factor > 0 && at < end && text(at) >= '0' && text(at) <= '9') {
          fraction += (text(at) - '0') * factor
          factor /= 10
          at += 1
        }
      }
      val zone = if (at == start + Seconds + 1) Other else zoneOffset(text, at, end)
      if (zone == Other) Other
      else {
        val seconds = dayOf(year, month, day) * 86400L + hour * 3600 + minute * 60 + second
        (seconds - zone) * 1000000L + fraction
      }
    }
  }

  /** The offset from UTC in seconds. */
  private def zoneOffset(text: Array[Char], at: Int, end: Int): Long =
    if (at == end) offset
    else if (text(at) == 'Z') if (at + 1 == end) 0L else Other
    else if (at + 6 != end || text(at + 3) != ':' || (text(at) != '+' && text(at) != '-')) Other
    else {
      val hours = digits(text, at + 1, 2)
      val minutes = digits(text, at + 4, 2)
      if ((hours | minutes) < 0 || hours > 17 || minutes > 59) Other
      else {
        val seconds = hours * 3600L + minutes * 60L
        if (text(at) == '-') -seconds else seconds
      }
    }

  private def daysOf(year: Int, month: Int): Int = LocalDate.of(year, month, 1).lengthOfMonth

  // Most texts have the day of the text before.
  private[this] var lastDate = -1
  private[this] var lastDay = 0L

  private def dayOf(year: Int, month: Int, day: Int): Long = {
    val date = (year * 12 + month) * 32 + day
    if (date != lastDate) {
      lastDay = LocalDate.of(year, month, day).toEpochDay
      lastDate = date
    }
    lastDay
  }
}

private[columns] object PlainTimes {

  /** No time: less than those of all years. */
  val Other: Long = Long.MinValue

  // The lengths of 2026-01-02T03:04:05, and with a fraction and an offset.
  private val Seconds = 19
  private val Longest = 32

  def apply(options: JSONOptions): PlainTimes = {
    val rules = options.zoneId.getRules
    val offset =
      if (rules.isFixedOffset) rules.getOffset(java.time.Instant.EPOCH).asInstanceOf[ZoneOffset].getTotalSeconds.toLong
      else Other
    new PlainTimes(options.timestampFormatInRead.isEmpty, offset)
  }

  /** A number of some digits, or -1. */
  private def digits(text: Array[Char], start: Int, count: Int): Int = {
    var number = 0
    var i = start
    while (i < start + count) {
      val digit = text(i) - '0'
      number = if (digit < 0 || digit > 9 || number < 0) -1 else number * 10 + digit
      i += 1
    }
    number
  }
}
