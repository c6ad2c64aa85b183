package org.apache.spark.sql.mullion.sqlfunctions

import org.apache.spark.sql.catalyst.expressions.{Cast, CreateStruct, Expression, Literal, RowOrdering, SortOrder}
import org.apache.spark.sql.mullion.expressions.columns.SessionGap
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.spec.AlignedWindow

/** The arguments of a SQL function call, checked during analysis: times, lengths of time, and columns.
  *
  * @param function
  *   its name
  * @param usage
  *   its parameters, in the form of its description
  * @param required
  *   the minimum number of arguments
  * @param allowed
  *   the maximum number of arguments
  */
private[sqlfunctions] final class Arguments(
    function: String,
    usage: String,
    required: Int,
    allowed: Int,
    values: Seq[Expression]
) {
  private val lengths = new LengthArgument(function)

  if (values.length < required || values.length > allowed) {
    val takes =
      if (required == allowed) s"$required"
      else if (allowed == Int.MaxValue) s"$required or more"
      else s"$required to $allowed"
    throw MullionException.invalid(
      s"$function takes $takes arguments and was given ${values.length}. Write $function($usage)."
    )
  }

  /** The argument of a function of one. */
  def only: Expression = values.head

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

  /** The window described by `size`, and from the third argument on by `slide` and `offset` or `offset` alone. */
  def window(hasSlide: Boolean): AlignedWindow = {
    val size = positive(1, "size")
    val slide = if (hasSlide && values.length > 2) positive(2, "slide") else size
    val at = if (hasSlide) 3 else 2
    AlignedWindow.sliding(size, slide, if (values.length > at) lengths.any("offset", values(at)) else 0L)
  }

  /** The gap in microseconds, as a column: a constant, or each row's own, which is null if it is no gap. */
  def gap: Expression =
    if (values(1).foldable) Literal(positive(1, "gap"))
    else
      values(1).dataType match {
        case _: DayTimeIntervalType | CalendarIntervalType => SessionGap(values(1))
        case _: StringType                                 => SessionGap(Cast(values(1), CalendarIntervalType))
        case other                                         => throw lengths.notALength("gap", values(1), other)
      }

  /** The first argument: a number of rows, the same for all. */
  def count(name: String): Int = {
    val fix = s"Write a whole number from 1 to ${Int.MaxValue}, such as $function(10, ...)."
    val argument = values.head
    if (!argument.foldable)
      throw MullionException.invalid(
        s"The $name of $function is ${argument.sql}, which may differ from row to row. $fix"
      )
    (argument.dataType, argument.eval()) match {
      case (_: IntegralType, number: Number) if number.longValue > 0 && number.longValue <= Int.MaxValue =>
        number.intValue
      case (kind, _) =>
        throw MullionException.invalid(
          s"The $name of $function is ${argument.sql}, of type ${kind.sql}, which is no number of rows. $fix"
        )
    }
  }

  /** An argument whose values have an order. */
  def ordered(at: Int, name: String): Expression = {
    val argument = values(at) match {
      case SortOrder(child, _, _, _) =>
        throw MullionException.invalid(
          s"The $name of $function is ${values(at).sql}. The largest value is always first, and nulls are last: write " +
            s"${child.sql} for that order, and -${child.sql} for the smallest number first."
        )
      case value => value
    }
    if (!RowOrdering.isOrderable(argument.dataType))
      throw MullionException.invalid(
        s"The $name of $function is ${argument.sql}, of type ${argument.dataType.sql}, whose values have no order. Order by a " +
          "number, a text, a time, or a struct of them."
      )
    argument
  }

  /** The arguments from an index on: one, or a struct of several. */
  def record(from: Int): Expression = values.drop(from) match {
    case Seq(one) => one
    case several  => CreateStruct(several)
  }

  private def positive(at: Int, name: String): Long = lengths.positive(name, values(at))
}
