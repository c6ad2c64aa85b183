package org.apache.spark.sql.mullion.sqlfunctions

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.mullion.expressions.columns.TimeRange
import org.apache.spark.sql.types._

import dev.mullion.windows.spec.{AlignedWindow, Duration, WindowsAt}

/** An expression over a time that concerns its windows on a grid. */
sealed trait OfWindow extends UnaryExpression {
  def window: AlignedWindow

  override def nullIntolerant: Boolean = true

  /** The lengths as text that SQL can parse. */
  protected def lengths: Seq[String]

  override def sql: String = s"$prettyName(${(child.sql +: lengths.map(l => s"'$l'")).mkString(", ")})"

  override protected def flatArguments: Iterator[Any] = Iterator(child) ++ lengths

  protected def sizeAndOffset: Seq[String] =
    Duration.describe(window.size) +: Seq(window.offset).filter(_ != 0).map(Duration.describe)

  protected def sizeSlideAndOffset: Seq[String] =
    Seq(window.size, window.slide).map(Duration.describe) ++ Seq(window.offset).filter(_ != 0).map(Duration.describe)
}

// scalastyle:off line.size.limit
@ExpressionDescription(
  usage = """
    _FUNC_(ts, size[, slide[, offset]]) - Returns every window that holds the time `ts`, in order of their starts: the half-open intervals [start, end) of length `size` that start every `slide`. In a gap between windows there is none.
  """,
  arguments = """
    Arguments:
      * ts - a TIMESTAMP; for a null the result is null.
      * size - how long a window is: an interval, or text such as '10 seconds', that is the same for all rows. Longer than zero; no months.
      * slide - how far apart windows start; `size` if it is not given, so that windows follow one another. Where it is longer than `size` there are gaps.
      * offset - how far the start of a window is shifted from the epoch, 1970-01-01 00:00:00 UTC; nothing if it is not given. Only its remainder by `slide` matters.
  """,
  examples = """
    Examples:
      > SELECT _FUNC_(TIMESTAMP '2013-01-01 10:07:00', '10 minutes');
       [{"start":2013-01-01 10:00:00,"end":2013-01-01 10:10:00}]
      > SELECT _FUNC_(TIMESTAMP '2013-01-01 10:07:00', INTERVAL 10 MINUTES, INTERVAL 5 MINUTES);
       [{"start":2013-01-01 10:00:00,"end":2013-01-01 10:10:00},{"start":2013-01-01 10:05:00,"end":2013-01-01 10:15:00}]
      > SELECT _FUNC_(TIMESTAMP '2013-01-01 10:07:00', '5 minutes', '10 minutes');
       []
  """,
  note = """
    Times are microseconds, and windows of days are 24 hours long, whatever the time zone. At the ends of time windows are clamped. A call that would return more than a million windows raises an error.
  """,
  group = "datetime_funcs",
  since = "0.1.0"
)
// scalastyle:on line.size.limit
case class MullionWindows(child: Expression, window: AlignedWindow) extends OfWindow {
  private lazy val at = new WindowsAt(window)

  override def prettyName: String = "mullion_windows"
  override def dataType: DataType = TimeRange.array
  override protected def lengths: Seq[String] = sizeSlideAndOffset

  /** The windows of a time, from generated code too. */
  def of(ts: Long): ArrayData = {
    val windows = new Array[Any](at.count(ts).toInt)
    var i = 0
    while (i < windows.length) {
      val start = at.start(ts, i)
      windows(i) = new TimeRange(start, at.end(ts, i))
      i += 1
    }
    new GenericArrayData(windows)
  }

  override protected def nullSafeEval(ts: Any): Any = of(ts.asInstanceOf[Long])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val windows = ctx.addReferenceObj("windows", this)
    defineCodeGen(ctx, ev, ts => s"$windows.of($ts)")
  }

  override protected def withNewChildInternal(newChild: Expression): MullionWindows = copy(child = newChild)
}

// scalastyle:off line.size.limit
@ExpressionDescription(
  usage = """
    _FUNC_(ts, size, slide[, offset]) - Returns the slice that holds the time `ts`: the largest half-open interval [start, end) that no window edge cuts, of windows of length `size` that start every `slide`. Rows of one slice are in the same windows. In a gap between windows it is null.
  """,
  arguments = """
    Arguments:
      * ts - a TIMESTAMP; for a null the result is null.
      * size - how long a window is: an interval, or text such as '10 seconds', that is the same for all rows. Longer than zero; no months.
      * slide - how far apart windows start.
      * offset - how far the start of a window is shifted from the epoch, 1970-01-01 00:00:00 UTC; nothing if it is not given. Only its remainder by `slide` matters.
  """,
  examples = """
    Examples:
      > SELECT _FUNC_(TIMESTAMP '2013-01-01 10:07:00', '1 hour', '5 minutes');
       {"start":2013-01-01 10:05:00,"end":2013-01-01 10:10:00}
      > SELECT _FUNC_(TIMESTAMP '2013-01-01 10:07:00', INTERVAL 8 MINUTES, INTERVAL 5 MINUTES);
       {"start":2013-01-01 10:05:00,"end":2013-01-01 10:08:00}
  """,
  group = "datetime_funcs",
  since = "0.1.0"
)
// scalastyle:on line.size.limit
case class MullionSlice(child: Expression, window: AlignedWindow) extends OfWindow {
  private lazy val at = new WindowsAt(window)

  override def prettyName: String = "mullion_slice"
  override def dataType: DataType = TimeRange.schema
  override def nullable: Boolean = child.nullable || window.hasGaps
  override protected def lengths: Seq[String] = sizeSlideAndOffset

  def holds(ts: Long): Boolean = at.holds(ts)

  def of(ts: Long): TimeRange = new TimeRange(at.sliceStart(ts), at.sliceEnd(ts))

  override protected def nullSafeEval(ts: Any): Any = {
    val time = ts.asInstanceOf[Long]
    if (holds(time)) of(time) else None.orNull
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val slices = ctx.addReferenceObj("slices", this)
    if (!window.hasGaps) defineCodeGen(ctx, ev, ts => s"$slices.of($ts)")
    else
      nullSafeCodeGen(
        ctx,
        ev,
        ts => s"""
             |if ($slices.holds($ts)) { ${ev.value} = $slices.of($ts); }
             |else { ${ev.isNull} = true; }
             |""".stripMargin
      )
  }

  override protected def withNewChildInternal(newChild: Expression): MullionSlice = copy(child = newChild)
}

// scalastyle:off line.size.limit
@ExpressionDescription(
  usage = """
    _FUNC_(ts, size[, offset]) - Returns the start of the window that holds the time `ts`, where windows of length `size` follow one another.
  """,
  arguments = """
    Arguments:
      * ts - a TIMESTAMP; for a null the result is null.
      * size - how long a window is: an interval, or text such as '10 seconds', that is the same for all rows. Longer than zero; no months.
      * offset - how far the start of a window is shifted from the epoch, 1970-01-01 00:00:00 UTC; nothing if it is not given. Only its remainder by `size` matters.
  """,
  examples = """
    Examples:
      > SELECT _FUNC_(TIMESTAMP '2013-01-01 10:07:00', '1 hour');
       2013-01-01 10:00:00
      > SELECT _FUNC_(TIMESTAMP '2013-01-01 10:07:00', INTERVAL 1 HOUR, INTERVAL 15 MINUTES);
       2013-01-01 09:15:00
  """,
  group = "datetime_funcs",
  since = "0.1.0"
)
// scalastyle:on line.size.limit
case class MullionWindowStart(child: Expression, window: AlignedWindow) extends OfWindow {
  override def prettyName: String = "mullion_window_start"
  override def dataType: DataType = TimestampType
  override protected def lengths: Seq[String] = sizeAndOffset

  override protected def nullSafeEval(ts: Any): Any = window.lastStart(ts.asInstanceOf[Long])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode =
    defineCodeGen(ctx, ev, MullionWindowStart.code(_, window))

  override protected def withNewChildInternal(newChild: Expression): MullionWindowStart = copy(child = newChild)
}

private object MullionWindowStart {
  def code(ts: String, window: AlignedWindow): String =
    s"dev.mullion.windows.spec.TimeMath.floor($ts, ${window.slide}L, ${window.offset}L)"
}

// scalastyle:off line.size.limit
@ExpressionDescription(
  usage = """
    _FUNC_(ts, size[, offset]) - Returns the end of the window that holds the time `ts`, where windows of length `size` follow one another. The end is the first time that is no longer in the window.
  """,
  arguments = """
    Arguments:
      * ts - a TIMESTAMP; for a null the result is null.
      * size - how long a window is: an interval, or text such as '10 seconds', that is the same for all rows. Longer than zero; no months.
      * offset - how far the start of a window is shifted from the epoch, 1970-01-01 00:00:00 UTC; nothing if it is not given. Only its remainder by `size` matters.
  """,
  examples = """
    Examples:
      > SELECT _FUNC_(TIMESTAMP '2013-01-01 10:07:00', '1 hour');
       2013-01-01 11:00:00
      > SELECT _FUNC_(TIMESTAMP '2013-01-01 10:07:00', INTERVAL 1 HOUR, INTERVAL 15 MINUTES);
       2013-01-01 10:15:00
  """,
  group = "datetime_funcs",
  since = "0.1.0"
)
// scalastyle:on line.size.limit
case class MullionWindowEnd(child: Expression, window: AlignedWindow) extends OfWindow {
  override def prettyName: String = "mullion_window_end"
  override def dataType: DataType = TimestampType
  override protected def lengths: Seq[String] = sizeAndOffset

  override protected def nullSafeEval(ts: Any): Any = window.end(window.lastStart(ts.asInstanceOf[Long]))

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val windows = ctx.addReferenceObj("windows", window, classOf[AlignedWindow].getName)
    defineCodeGen(ctx, ev, ts => s"$windows.end(${MullionWindowStart.code(ts, window)})")
  }

  override protected def withNewChildInternal(newChild: Expression): MullionWindowEnd = copy(child = newChild)
}
