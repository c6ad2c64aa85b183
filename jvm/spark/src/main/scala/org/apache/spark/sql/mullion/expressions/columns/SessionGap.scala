package org.apache.spark.sql.mullion.expressions.columns

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{Attribute, Cast, Expression, UnaryExpression}
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.CalendarInterval

import dev.mullion.MullionException
import dev.mullion.windows.spec.{Setting, TimeMath}

/** The gap of a row, in microseconds. Null for none: a null, an interval that is not positive, or one with months,
  * whose lengths differ.
  *
  * @param child
  *   an interval of either of Spark's types, a day being 24 hours
  */
case class SessionGap(child: Expression) extends UnaryExpression {
  override def dataType: DataType = LongType
  override def nullable: Boolean = true

  override def eval(row: org.apache.spark.sql.catalyst.InternalRow): Any = Option(child.eval(row)) match {
    case Some(interval: CalendarInterval) => positive(SessionGap.micros(interval))
    case Some(us: Long)                   => positive(us)
    case _                                => None.orNull
  }

  private def positive(us: Long): Any = if (us > 0) us else None.orNull

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = nullSafeCodeGen(
    ctx,
    ev,
    gap => {
      val us =
        if (child.dataType == CalendarIntervalType) s"${SessionGap.getClass.getName}.MODULE$$.micros($gap)" else gap
      s"""
         |${ev.value} = $us;
         |${ev.isNull} = ${ev.value} <= 0L;
         |""".stripMargin
    }
  )

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

object SessionGap {

  /** The gap in a column of the input. */
  def apply(df: DataFrame, gap: Column): SessionGap = {
    val column = OfRow.one(df, gap, "The gap is")
    column.dataType match {
      case _: DayTimeIntervalType | CalendarIntervalType => SessionGap(column)
      case _: StringType                                 => SessionGap(Cast(column, CalendarIntervalType))
      case other                                         =>
        throw MullionException.invalid(
          s"The gap ${column.sql} is of type ${other.simpleString}, and a gap is an interval of days and time. ${fix(column)}"
        )
    }
  }

  private def fix(column: Expression): String = column.dataType match {
    case _: NumericType =>
      val seconds = column match {
        case named: Attribute => named.name
        case _                => "..."
      }
      s"If it is in seconds, write ${Setting.gapOfSeconds(seconds)}."
    case _ => s"Give one, as in ${Setting.gapOfSeconds("seconds")}, or text such as ${Setting.quoted("10 minutes")}."
  }

  /** An interval in microseconds; 0, which is no gap, if it has months. */
  def micros(interval: CalendarInterval): Long =
    if (interval.months != 0) 0L
    else TimeMath.plus(TimeMath.times(interval.days.toLong, 86400000000L), interval.microseconds)
}
