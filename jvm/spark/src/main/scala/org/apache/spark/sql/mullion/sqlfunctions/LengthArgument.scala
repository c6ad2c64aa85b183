package org.apache.spark.sql.mullion.sqlfunctions

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.util.IntervalUtils
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String}

import dev.mullion.MullionException
import dev.mullion.windows.spec.Duration

/** A length of time as an argument of a SQL function: an interval or its text; in microseconds.
  *
  * @param function
  *   its name
  */
private[mullion] final class LengthArgument(function: String) {

  def positive(name: String, e: Expression): Long = {
    val us = any(name, e)
    if (us <= 0)
      throw MullionException.invalid(
        s"The $name of $function is ${Duration.describe(us)}, and must be longer than zero. Write, for instance, " +
          "INTERVAL 10 SECONDS or '10 seconds'."
      )
    us
  }

  def any(name: String, e: Expression): Long = {
    if (!e.foldable)
      throw MullionException.invalid(
        s"The $name of $function is ${e.sql}, which may differ from row to row. Give an interval that is the same for all, " +
          "such as INTERVAL 10 SECONDS or '10 seconds'."
      )
    (e.dataType, e.eval()) match {
      case (_: DayTimeIntervalType, us: Long)                 => us
      case (CalendarIntervalType, interval: CalendarInterval) => micros(name, e, interval)
      case (_: StringType, text: UTF8String)                  =>
        micros(name, e, Try(IntervalUtils.stringToInterval(text)).getOrElse(throw notText(name, text)))
      case (_: YearMonthIntervalType, _: Integer) => throw months(name, e)
      case (other, _)                             => throw notALength(name, e, other)
    }
  }

  def notALength(name: String, e: Expression, found: DataType): MullionException = MullionException.invalid(
    s"The $name of $function is ${e.sql}, of type ${found.sql}, and must be an interval, or the text of one. Write, for " +
      "instance, INTERVAL 10 SECONDS or '10 seconds'."
  )

  private def micros(name: String, e: Expression, interval: CalendarInterval): Long = {
    if (interval.months != 0) throw months(name, e)
    val exact = BigInt(interval.days) * 86400000000L + interval.microseconds
    if (!exact.isValidLong)
      throw MullionException.invalid(
        s"The $name of $function is ${e.sql}, longer than a timestamp can span. Give a shorter one."
      )
    exact.toLong
  }

  private def notText(name: String, text: UTF8String): MullionException = MullionException.invalid(
    s"The $name of $function is '$text', which is not an interval: it must be numbers, each followed by its unit. Write, for " +
      "instance, '10 seconds' or '1 hour 30 minutes'."
  )

  private def months(name: String, e: Expression): MullionException = MullionException.invalid(
    s"The $name of $function is ${e.sql}: months and years are of no fixed length. Give it in days, such as INTERVAL 30 DAYS."
  )
}
