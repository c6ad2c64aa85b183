package dev.mullion

import java.time.DayOfWeek

import org.apache.spark.sql.mullion.plan.build.WindowedBuilder
import org.apache.spark.sql.mullion.plan.options.WindowOptions
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.{Column, DataFrame}

import dev.mullion.windows.spec.{
  AlignedWindow,
  AroundWindow,
  CalendarWindow,
  CountWindow,
  CumulativeWindow,
  CustomWindow,
  GlobalTrigger,
  GlobalWindow,
  OrderedWindow,
  SessionWindow,
  WindowSpec
}

/** Windows and their options for tests, in plain types, with lengths of time in microseconds. */
object Asked {
  def tumbling(size: Long, offset: Long): AlignedWindow = AlignedWindow.tumbling(size, offset)

  def fromFirstRow(size: Long): WindowSpec = OrderedWindow.fromFirstRow(size)

  def sliding(size: Long, slide: Long, offset: Long): AlignedWindow = AlignedWindow.sliding(size, slide, offset)

  def cumulate(size: Long, step: Long, offset: Long): CumulativeWindow = CumulativeWindow(size, step, offset)

  def calendar(
      n: Int,
      unit: String,
      zone: String,
      slides: Int,
      weekStart: DayOfWeek,
      offsetMonths: Int,
      offset: Long
  ): CalendarWindow =
    unit match {
      case "day"  => CalendarWindow.ofDays(n, zone, slides, offset)
      case "week" => CalendarWindow.ofWeeks(n, zone, slides, weekStart, offset)
      case _      => CalendarWindow.ofMonths(n, zone, slides, offsetMonths, offset)
    }

  def around(before: Long, after: Long): WindowSpec = AroundWindow(before, after)

  def session(gap: Long): WindowSpec = SessionWindow(Some(gap))

  /** @param gap
    *   none if each row has its own
    */
  def session(gap: Option[Long], maxLength: Option[Long], endsWithRow: Boolean): WindowSpec =
    if (maxLength.isEmpty && !endsWithRow) SessionWindow(gap) else OrderedWindow.session(gap, maxLength, endsWithRow)

  def count(size: Long, every: Long, timeout: Option[Long]): WindowSpec = CountWindow(size, every, timeout)

  def globalEvery(rows: Long, endsWith: Boolean): WindowSpec = GlobalWindow(GlobalTrigger.Every(rows), endsWith)

  def globalWhen(): WindowSpec = GlobalWindow(GlobalTrigger.When)

  def globalChanges(endsWith: Boolean): WindowSpec = GlobalWindow(GlobalTrigger.Changes, endsWith)

  def globalSplit(function: String): WindowSpec = GlobalWindow(GlobalTrigger.Split(function))

  def custom(): WindowSpec = CustomWindow("each row's own")

  def options: WindowOptions = WindowOptions()

  def windowed(
      df: DataFrame,
      window: WindowSpec,
      by: Array[Column],
      options: WindowOptions,
      aggregates: Array[Column]
  ): DataFrame = {
    Facade.install(df.sparkSession)
    WindowedBuilder(Classic.frame(df), window, by.toSeq, options, aggregates.toSeq)
  }
}
