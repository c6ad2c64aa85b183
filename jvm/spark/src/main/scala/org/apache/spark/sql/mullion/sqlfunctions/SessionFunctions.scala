package org.apache.spark.sql.mullion.sqlfunctions

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.mullion.expressions.columns.{SessionGap, TimeRange}
import org.apache.spark.sql.types._

import dev.mullion.windows.spec.{Duration, TimeMath}

/** A time and the gap that follows it, in microseconds. */
sealed trait OfGap extends BinaryExpression {
  def gap: Expression

  override def right: Expression = gap

  override def nullIntolerant: Boolean = true

  private def gapText: String = gap match {
    case Literal(us: Long, LongType) => s"'${Duration.describe(us)}'"
    case SessionGap(interval)        => interval.sql
    case other                       => other.sql
  }

  override def sql: String = s"$prettyName(${left.sql}, $gapText)"
}

// scalastyle:off line.size.limit
@ExpressionDescription(
  usage = """
    _FUNC_(ts, gap) - Returns the session that a row at the time `ts` makes alone: the half-open interval [ts, ts + gap). Rows of one key are in one session when their intervals touch, so that a row exactly at `ts + gap` still joins.
  """,
  arguments = """
    Arguments:
      * ts - a TIMESTAMP; for a null the result is null.
      * gap - the inactivity that ends a session: an interval, or text such as '10 minutes'. It may differ from row to row; the result is null for a row whose gap is null, is not longer than zero or has months.
  """,
  examples = """
    Examples:
      > SELECT _FUNC_(TIMESTAMP '2013-01-01 10:07:00', '10 minutes');
       {"start":2013-01-01 10:07:00,"end":2013-01-01 10:17:00}
      > SELECT _FUNC_(ts, make_dt_interval(0, 0, minutes)) FROM VALUES (TIMESTAMP '2013-01-01 10:07:00', 5), (TIMESTAMP '2013-01-01 10:08:00', 0) AS rows(ts, minutes);
       {"start":2013-01-01 10:07:00,"end":2013-01-01 10:12:00}
       NULL
  """,
  group = "datetime_funcs",
  since = "0.1.0"
)
// scalastyle:on line.size.limit
case class MullionSession(left: Expression, gap: Expression) extends OfGap {
  override def prettyName: String = "mullion_session"
  override def dataType: DataType = TimeRange.schema

  override protected def nullSafeEval(ts: Any, us: Any): Any = {
    val start = ts.asInstanceOf[Long]
    new TimeRange(start, TimeMath.plus(start, us.asInstanceOf[Long]))
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = defineCodeGen(
    ctx,
    ev,
    (ts, us) => s"new ${classOf[TimeRange].getName}($ts, dev.mullion.windows.spec.TimeMath.plus($ts, $us))"
  )

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): MullionSession =
    copy(left = newLeft, gap = newRight)
}

// scalastyle:off line.size.limit
@ExpressionDescription(
  usage = """
    _FUNC_(last, gap) - Returns when a session ends whose last row is at the time `last`: `last + gap`.
  """,
  arguments = """
    Arguments:
      * last - a TIMESTAMP; for a null the result is null.
      * gap - the inactivity that ends a session: an interval, or text such as '10 minutes'. It may differ from row to row; the result is null for a row whose gap is null, is not longer than zero or has months.
  """,
  examples = """
    Examples:
      > SELECT _FUNC_(TIMESTAMP '2013-01-01 10:07:00', '10 minutes');
       2013-01-01 10:17:00
      > SELECT _FUNC_(max(ts), INTERVAL 1 HOUR) FROM VALUES (TIMESTAMP '2013-01-01 10:07:00'), (TIMESTAMP '2013-01-01 10:30:00') AS rows(ts);
       2013-01-01 11:30:00
  """,
  group = "datetime_funcs",
  since = "0.1.0"
)
// scalastyle:on line.size.limit
case class MullionSessionEnd(left: Expression, gap: Expression) extends OfGap {
  override def prettyName: String = "mullion_session_end"
  override def dataType: DataType = TimestampType

  override protected def nullSafeEval(last: Any, us: Any): Any =
    TimeMath.plus(last.asInstanceOf[Long], us.asInstanceOf[Long])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode =
    defineCodeGen(ctx, ev, (last, us) => s"dev.mullion.windows.spec.TimeMath.plus($last, $us)")

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): MullionSessionEnd =
    copy(left = newLeft, gap = newRight)
}
