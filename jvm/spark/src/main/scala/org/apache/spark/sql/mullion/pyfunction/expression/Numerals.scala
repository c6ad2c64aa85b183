package org.apache.spark.sql.mullion.pyfunction.expression

import java.nio.charset.StandardCharsets.US_ASCII

import org.apache.spark.unsafe.Platform

/** Parses numbers and times like Python. Formats that are not supported here throw [[Untranslatable]]. */
private[pyfunction] object Numerals {
  private val PowersOfTen = Array.tabulate(23)(n => s"1e$n".toDouble)
  // An integer of this many digits is exact as a float.
  private val ExactDigits = 15
  private val MostDigits = 18
  private val SecondsOfDay = 86400L
  private val Million = 1000000L
  private val Thousand = 1000L

  private def isDigit(c: Byte) = c >= '0' && c <= '9'

  /** `float(text)`, for digits with a point, a sign and an exponent. */
  def float(bytes: Array[Byte], from: Int, until: Int): Double = {
    var at = from
    val isNegative = at < until && bytes(at) == '-'
    if (at < until && (bytes(at) == '-' || bytes(at) == '+')) at += 1
    var (digits, mantissa, places) = (0, 0L, 0)
    var hasPoint = false
    while (at < until && (isDigit(bytes(at)) || (bytes(at) == '.' && !hasPoint))) {
      if (bytes(at) == '.') hasPoint = true
      else {
        if (digits < MostDigits) mantissa = mantissa * 10 + (bytes(at) - '0')
        digits += 1
        if (hasPoint) places += 1
      }
      at += 1
    }
    if (digits == 0) throw Untranslatable
    if (at == until && digits <= ExactDigits) {
      // Both are exact, so the quotient is rounded once.
      val value = mantissa.toDouble / PowersOfTen(places)
      if (isNegative) -value else value
    } else {
      if (at < until && (bytes(at) == 'e' || bytes(at) == 'E')) {
        at += 1
        if (at < until && (bytes(at) == '-' || bytes(at) == '+')) at += 1
        val start = at
        while (at < until && isDigit(bytes(at))) at += 1
        if (at == start) throw Untranslatable
      }
      if (at != until) throw Untranslatable
      new String(bytes, from, until - from, US_ASCII).toDouble
    }
  }

  /** `int(text)`, for digits with a sign. */
  def int(bytes: Array[Byte], from: Int, until: Int): Long = {
    val start = if (from < until && (bytes(from) == '-' || bytes(from) == '+')) from + 1 else from
    if (start == until || until - start > MostDigits) throw Untranslatable
    val number = digits(bytes, start, until)
    if (bytes(from) == '-') -number else number
  }

  /** A JSON number, which is an int without a point and an exponent. */
  def json(bytes: Array[Byte], from: Int, until: Int, to: Value): Unit = {
    val start = if (from < until && bytes(from) == '-') from + 1 else from
    if (start == until || !isDigit(bytes(start))) throw Untranslatable
    // No leading zeros, and digits on both sides of a point.
    if (bytes(start) == '0' && start + 1 < until && isDigit(bytes(start + 1))) throw Untranslatable
    var i = start
    while (i < until && isDigit(bytes(i))) i += 1
    if (i == until) to.setInt(int(bytes, from, until))
    else {
      if (bytes(i) == '.' && (i + 1 == until || !isDigit(bytes(i + 1)))) throw Untranslatable
      to.setFloat(float(bytes, from, until))
      // Python returns an infinity; rare enough to be unsupported.
      if (to.double.isInfinite) throw Untranslatable
    }
  }

  private def digits(bytes: Array[Byte], from: Int, until: Int): Long = {
    var (i, number) = (from, 0L)
    while (i < until) {
      if (!isDigit(bytes(i))) throw Untranslatable
      number = number * 10 + (bytes(i) - '0')
      i += 1
    }
    number
  }

  /** `datetime.fromisoformat(text)` in microseconds, such as `2024-01-31T23:59:59.123456+00:00`: with a `T` or a blank,
    * and with no, three or six digits after the seconds.
    *
    * @param inUtc
    *   whether a text without a zone is in UTC; else it is unsupported
    */
  def isoformat(bytes: Array[Byte], from: Int, until: Int, inUtc: Boolean): Long = {
    val length = until - from
    if (length < 19) throw Untranslatable
    def number(at: Int, count: Int) = digits(bytes, from + at, from + at + count)
    def require(at: Int, c: Char): Unit = if (bytes(from + at) != c) throw Untranslatable
    require(16, ':')
    val minute = minuteOf(bytes, from)
    val second = number(17, 2)
    if (second > 59) throw Untranslatable
    var at = 19
    var micros = 0L
    if (at < length && bytes(from + at) == '.') {
      var end = at + 1
      while (end < length && isDigit(bytes(from + end))) end += 1
      micros = end - at - 1 match {
        case 3 => number(at + 1, 3) * Thousand
        case 6 => number(at + 1, 6)
        case _ => throw Untranslatable
      }
      at = end
    }
    val isUtc = length - at match {
      case 0 => false
      case 1 => bytes(from + at) == 'Z' || (throw Untranslatable)
      case 6 =>
        require(at, '+')
        require(at + 3, ':')
        number(at + 1, 2) + number(at + 4, 2) == 0 || (throw Untranslatable)
      case _ => throw Untranslatable
    }
    if (!isUtc && !inUtc) throw Untranslatable
    minute + second * Million + micros
  }

  /** The sixteen bytes of a date, an hour and a minute, and their time, in microseconds. */
  private final class Minute(val date: Long, val rest: Long, val us: Long)

  // The last result, which often applies to the next text too. Tasks share it; it is immutable.
  private var newest: Minute = {
    val begin = "1970-01-01T00:00".getBytes(US_ASCII)
    new Minute(eight(begin, 0), eight(begin, 8), 0L)
  }

  private def eight(bytes: Array[Byte], at: Int) = Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + at)

  private def minuteOf(bytes: Array[Byte], from: Int): Long = {
    val (date, rest) = (eight(bytes, from), eight(bytes, from + 8))
    val cached = newest
    if (cached.date == date && cached.rest == rest) cached.us
    else {
      def number(at: Int, count: Int) = digits(bytes, from + at, from + at + count)
      def require(at: Int, c: Char): Unit = if (bytes(from + at) != c) throw Untranslatable
      require(4, '-')
      require(7, '-')
      require(13, ':')
      if (bytes(from + 10) != 'T' && bytes(from + 10) != ' ') throw Untranslatable
      val (hour, minute) = (number(11, 2), number(14, 2))
      if (hour > 23 || minute > 59) throw Untranslatable
      val seconds = days(number(0, 4), number(5, 2), number(8, 2)) * SecondsOfDay + hour * 3600 + minute * 60
      val micros = seconds * Million
      newest = new Minute(date, rest, micros)
      micros
    }
  }

  /** Days since the epoch of a date of the Gregorian calendar. */
  private def days(year: Long, month: Long, day: Long): Long = {
    val isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    if (year < 1 || month < 1 || month > 12 || day < 1) throw Untranslatable
    val last = month match {
      case 2              => if (isLeap) 29 else 28
      case 4 | 6 | 9 | 11 => 30
      case _              => 31
    }
    if (day > last) throw Untranslatable
    // Years begin in March here, so that a leap day is the last of its year.
    val since = if (month > 2) year else year - 1
    val ofYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
    365 * since + since / 4 - since / 100 + since / 400 + ofYear - 719468
  }

  /** `datetime.fromtimestamp(seconds, UTC)` of a float: rounded half to even, in microseconds. */
  def timestamp(seconds: Double): Long = {
    // The range of datetime, without the last second at either end.
    if (!(seconds > -62135596800.0 && seconds < 253402300799.0)) throw Untranslatable
    val rounded = if (seconds < 0) Math.ceil(seconds) else Math.floor(seconds)
    rounded.toLong * Million + Math.rint((seconds - rounded) * 1e6).toLong
  }
}
