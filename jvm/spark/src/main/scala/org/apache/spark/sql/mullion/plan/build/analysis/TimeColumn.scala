package org.apache.spark.sql.mullion.plan.build.analysis

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.toPrettySQL
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.mullion.plan.options.WindowOptions
import org.apache.spark.sql.mullion.plan.{Shown, Windows}
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.spec.{RowNumberWindow, Setting, TimeMath, WindowSpec}

/** The time of rows.
  *
  * @param named
  *   the event time in the call, as a TIMESTAMP
  * @param expression
  *   the time that the node reads: windows of row numbers have no clock, and columns without an event time use the wall
  *   clock
  * @param watermark
  *   the watermark of the event time, as metadata of a column; empty if panes do not close by it
  */
private[build] final case class TimeColumn(named: Option[Expression], expression: Expression, watermark: Metadata) {

  /** The delay of the watermark, in microseconds. */
  def delay: Long =
    if (watermark.contains(EventTimeWatermark.delayKey))
      TimeMath.fromMillis(watermark.getLong(EventTimeWatermark.delayKey))
    else 0L
}

private[build] object TimeColumn {

  def apply(df: DataFrame, window: WindowSpec, options: WindowOptions): TimeColumn = {
    val isNumbered = window.isInstanceOf[RowNumberWindow]
    val named = options.time.map(eventTime(df, _))
    TimeColumn(
      named,
      named.getOrElse(if (isNumbered) Literal(None.orNull, TimestampType) else CurrentTimestamp()),
      options.time.filterNot(_ => isNumbered).fold(Metadata.empty)(watermark(df, _))
    )
  }

  /** The event time as a TIMESTAMP; for a window column its last microsecond, like Spark's `window_time`. */
  def eventTime(df: DataFrame, time: Column): Expression = {
    val column = timeExpression(df, time)
    val expression = Shown.unalias(column)
    expression.find(_.isInstanceOf[Generator]).foreach { generator =>
      throw MullionException.invalid(
        s"The time ${generator.sql} returns several rows for one. Create them first, with df.select(...), and name their time here."
      )
    }
    expression.dataType match {
      case TimestampType => expression
      case s: StructType if s.fieldNames.sameElements(Array("start", "end")) && s("end").dataType == TimestampType =>
        val end = PreciseTimestampConversion(GetStructField(expression, 1), TimestampType, LongType)
        PreciseTimestampConversion(Subtract(end, Literal(1L)), LongType, TimestampType)
      case other =>
        throw MullionException.invalid(
          s"${Setting.time(column.name)} is of type ${other.simpleString}, and a window needs a timestamp. " +
            toTimestamp(column.name, other)
        )
    }
  }

  /** The conversion of a column of another type to a timestamp, for error messages. */
  private def toTimestamp(name: String, kind: DataType): String = {
    def convert(to: Setting) = s"Convert it before the watermark is set, with $to."
    kind match {
      case _: StringType                                 => convert(Setting.function("to_timestamp", name))
      case LongType | IntegerType | ShortType | ByteType =>
        convert(Setting.function("timestamp_millis", name)) +
          " There are timestamp_seconds and timestamp_micros for other units."
      case DoubleType | FloatType | _: DecimalType => convert(Setting.function("timestamp_seconds", name))
      case DateType | TimestampNTZType             =>
        convert(Setting.cast(name, "timestamp")) + " It is read in the session's time zone."
      case _ => "Name a column that holds each row's event time."
    }
  }

  private def timeExpression(df: DataFrame, time: Column): NamedExpression =
    df.select(time).queryExecution.analyzed match {
      // A column of the DataFrame before withWatermark is the same column without the watermark.
      case Project(Seq(a: Attribute), input) => input.output.find(_.exprId == a.exprId).getOrElse(a)
      case Project(Seq(e), _)                => e
      case other                             =>
        throw MullionException.invalid(
          s"The time must be one column of the input, and this is ${other.simpleString(5)}."
        )
    }

  /** The watermark of the time column, which a stream must have. */
  private def watermark(df: DataFrame, time: Column): Metadata = {
    val column = timeExpression(df, time)
    val key = EventTimeWatermark.delayKey
    if (!df.isStreaming) Metadata.empty
    else if (column.metadata.contains(key)) {
      new MetadataBuilder().putLong(key, column.metadata.getLong(key)).build()
    } else {
      val (found, fix) = noWatermark(df, column)
      throw MullionException.invalid(
        s"The window is on event time ${column.name}, but $found: without one no pane would ever close. $fix"
      )
    }
  }

  /** The state of a stream without a watermark on its time, and a fix. A stream that has a watermark cannot get a
    * second one: Spark fails when the query starts.
    */
  private def noWatermark(df: DataFrame, time: NamedExpression): (String, String) = {
    val plan = df.queryExecution.analyzed
    val columns = plan.output.filter(_.metadata.contains(EventTimeWatermark.delayKey)).map(_.name)
    val before = plan.collect { case watermark: EventTimeWatermark => watermark.eventTime.name }.distinct
    val (name, isColumn) = (time.name, Shown.unalias(time).isInstanceOf[Attribute])
    val on = if (columns.isEmpty) "the stream has no watermark" else s"the watermark is on ${columns.mkString(", ")}"
    if (hasPanes(plan))
      (
        on,
        "The input has panes of another window, whose clock continues only in their column window: keep that column, and " +
          s"write ${Setting.time("window")}."
      )
    else if (hasUnionWithout(plan))
      (
        "of the streams of a union some have a watermark and others have none",
        s"Call ${Setting.withWatermark(name)} on each stream before the union."
      )
    else if (columns.nonEmpty)
      (
        on,
        s"Name that column, as in ${Setting.time(columns.head)}; or compute $name first, and call ${Setting.withWatermark(name)} in the " +
          s"place of ${Setting.withWatermark(columns.head)}."
      )
    else if (before.contains(name))
      (
        s"$name was computed anew after ${Setting.withWatermark(name)}, which removes the watermark",
        s"Compute it first: df.withColumn(${Setting.quoted(name)}, ...).${Setting.withWatermark(name)}."
      )
    else if (before.nonEmpty)
      (
        s"${Setting.withWatermark(before.head)} was called, and ${before.head} is no longer a column",
        s"Keep it and write ${Setting.time(before.head)}; or call ${Setting.withWatermark(name)} in its place, once $name is computed."
      )
    else if (isColumn)
      (
        on,
        s"Set how long to wait for late rows, with df.${Setting.withWatermark(name, "10 minutes")} before windowed(...)."
      )
    else {
      // A watermark requires a column of the input.
      val computed = timeName(df, time)
      (
        on,
        "Make it a column first, and set how long to wait for late rows: " +
          s"${Setting.withColumn(computed, CallText.plain(Shown.unalias(time)).sql)}" +
          s".${Setting.withWatermark(computed, "10 minutes")} before windowed(..., ${Setting.time(computed)})."
      )
    }
  }

  private def hasUnionWithout(plan: LogicalPlan): Boolean = plan.exists {
    case union: Union =>
      val streams = union.children.filter(_.isStreaming)
      streams.exists(hasWatermark) && !streams.forall(hasWatermark)
    case _ => false
  }

  private def hasWatermark(plan: LogicalPlan): Boolean = plan.exists(_.isInstanceOf[EventTimeWatermark])

  /** A name for a computed time: its alias, or else an unused name. */
  private def timeName(df: DataFrame, time: NamedExpression): String = {
    val computed = Shown.unalias(time)
    if (time.name != toPrettySQL(computed) && time.name.matches("\\w+")) time.name
    else
      Iterator
        .from(1)
        .map(i => if (i == 1) "event_time" else s"event_time_$i")
        .find(name => !df.columns.exists(df.sparkSession.sessionState.conf.resolver(_, name)))
        .get
  }

  /** True if a plan has windows that close by a watermark. */
  private def hasPanes(plan: LogicalPlan): Boolean = plan.exists {
    case Windows(nodes) => nodes.exists(_.window.metadata.contains(EventTimeWatermark.delayKey))
    case _              => false
  }
}
