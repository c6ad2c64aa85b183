package org.apache.spark.sql.mullion.functions

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.{Cast, Expression, Literal}
import org.apache.spark.sql.catalyst.util.IntervalUtils
import org.apache.spark.sql.mullion.expressions.SessionGap
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String}

import dev.mullion.MullionException
import dev.mullion.windows.spec.{AlignedWindow, Duration}

/** The arguments of one call of a function in SQL, checked when the query is analysed: a time, and lengths of time.
  *
  * @param function
  *   its name
  * @param usage
  *   its parameters, as its description writes them
  * @param required
  *   how many of them a call must have
  * @param allowed
  *   how many it may have
  */
private[functions] final class Arguments(
    function: String,
    usage: String,
    required: Int,
    allowed: Int,
    values: Seq[Expression]
) {
  if (values.length < required || values.length > allowed) {
    val takes = if (required == allowed) s"$required" else s"$required to $allowed"
    throw MullionException.invalid(
      s"$function takes $takes arguments and was given ${values.length}. Write $function($usage)."
    )
  }

  /** The first argument: a TIMESTAMP. */
  def time: Expression = values.head.dataType match {
    case TimestampType => values.head
    case NullType      => Cast(values.head, TimestampType)
    case other         =>
      throw MullionException.invalid(
        s"The time of $function is ${values.head.sql}, of type ${other.sql}, and must be a TIMESTAMP. Convert it first: " +
          "to_timestamp(...) for text, timestamp_millis(...) for numbers since the epoch, window_time(...) for a window."
      )
  }

  /** The window that `size`, and from the third argument on `slide` and `offset` or `offset` alone, describe. */
  def window(hasSlide: Boolean): AlignedWindow = {
    val size = positive(1, "size")
    val slide = if (hasSlide && values.length > 2) positive(2, "slide") else size
    val at = if (hasSlide) 3 else 2
    AlignedWindow.sliding(size, slide, if (values.length > at) length(at, "offset") else 0L)
  }

  /** The gap in microseconds, as a column: the same for all rows, or each row's own, which is null if it is no gap. */
  def gap: Expression =
    if (values(1).foldable) Literal(positive(1, "gap"))
    else
      values(1).dataType match {
        case _: DayTimeIntervalType | CalendarIntervalType => SessionGap(values(1))
        case _: StringType                                 => SessionGap(Cast(values(1), CalendarIntervalType))
        case other                                         => throw notALength("gap", values(1), other)
      }

  private def positive(at: Int, name: String): Long = {
    val us = length(at, name)
    if (us <= 0)
      throw MullionException.invalid(
        s"The $name of $function is ${Duration.describe(us)}, and must be longer than nothing. Write, for instance, " +
          "INTERVAL 10 SECONDS or '10 seconds'."
      )
    us
  }

  private def length(at: Int, name: String): Long = {
    val e = values(at)
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
    s"The $name of $function is '$text', which is no interval: it must be numbers, each followed by its unit. Write, for " +
      "instance, '10 seconds' or '1 hour 30 minutes'."
  )

  private def months(name: String, e: Expression): MullionException = MullionException.invalid(
    s"The $name of $function is ${e.sql}: months and years are of no fixed length. Give it in days, such as INTERVAL 30 DAYS."
  )

  private def notALength(name: String, e: Expression, found: DataType): MullionException = MullionException.invalid(
    s"The $name of $function is ${e.sql}, of type ${found.sql}, and must be an interval, or text that is one. Write, for " +
      "instance, INTERVAL 10 SECONDS or '10 seconds'."
  )
}
