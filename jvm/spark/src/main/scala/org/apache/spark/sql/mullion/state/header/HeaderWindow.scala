package org.apache.spark.sql.mullion.state.header

import dev.mullion.windows.spec.{
  AlignedWindow,
  AroundWindow,
  CalendarWindow,
  CountWindow,
  CumulativeWindow,
  CustomWindow,
  GlobalTrigger,
  GlobalWindow,
  GridWindow,
  OrderedWindow,
  SessionWindow,
  WindowSpec
}

/** The window of a [[StateHeader]], one of:
  *   - aligned, with `size`, `slide` and `offset`
  *   - cumulative, with `size`, `step` and `offset`; in cycles by the calendar, with a `step`, `stepDays` or
  *     `stepMonths`
  *   - by the calendar of a `zone`, with `days` or `months`, `slides`, the `first` day and `shift`
  *   - a session, with a `gap` or, in SQL over `input`, with `gapByRow`
  *   - a session with a `maxLength`, or one that ends with a row for which a `trigger` in SQL is true; with
  *     `fromFirstRow`, windows of `maxLength` that begin with a row
  *   - around each row, from `before` it to `after` it
  *   - the `ranges` of rows, in SQL or by the name of a function
  *   - `count` rows, starting `every` so many, with a `timeout`
  *   - global, closing every so many rows, or by a `trigger`: in SQL or the name of the function that splits it; also
  *     by a condition over its contents, `endsWith`, in SQL
  */
final case class HeaderWindow(
    size: Option[Long],
    slide: Option[Long],
    offset: Option[Long],
    gap: Option[Long],
    gapByRow: Option[String],
    before: Option[Long],
    after: Option[Long],
    ranges: Option[String] = None,
    count: Option[Long] = None,
    every: Option[Long] = None,
    global: Option[String] = None,
    trigger: Option[String] = None,
    days: Option[Int] = None,
    months: Option[Int] = None,
    first: Option[Int] = None,
    zone: Option[String] = None,
    slides: Option[Int] = None,
    shift: Option[Long] = None,
    step: Option[Long] = None,
    maxLength: Option[Long] = None,
    fromFirstRow: Option[Boolean] = None,
    timeout: Option[Long] = None,
    endsWith: Option[String] = None,
    stepDays: Option[Int] = None,
    stepMonths: Option[Int] = None
) {
  def spec: WindowSpec =
    ofCalendar.orElse(ofTime).orElse(ofRows).orElse(ranges.map(CustomWindow(_))).getOrElse(ofOrder)

  private[header] def overlaps: Boolean = spec match {
    case grid: GridWindow => grid.overlaps
    case _                => false
  }

  private[header] def isSession: Boolean = spec match {
    case _: SessionWindow | _: OrderedWindow => true
    case _                                   => false
  }

  private def ofOrder: WindowSpec =
    if (fromFirstRow.contains(true)) OrderedWindow.fromFirstRow(maxLength.get)
    else if (maxLength.isDefined || trigger.isDefined) OrderedWindow.session(gap, maxLength, trigger.isDefined)
    else SessionWindow(gap)

  private def ofCalendar: Option[WindowSpec] =
    for (days <- days; months <- months; first <- first; zone <- zone)
      yield {
        val window = CalendarWindow.of(days, months, slides.getOrElse(1), first, shift.getOrElse(0L), zone)
        val byDays = stepDays.orElse(stepMonths).map { _ =>
          CumulativeWindow.byCalendar(window, stepDays.getOrElse(0), stepMonths.getOrElse(0))
        }
        byDays.orElse(step.map(CumulativeWindow.byCalendar(window, _))).getOrElse(window)
      }

  private def ofTime: Option[WindowSpec] = (size, slide, offset, before, after) match {
    case (Some(size), None, Some(offset), _, _)        => step.map(CumulativeWindow(size, _, offset))
    case (Some(size), Some(slide), Some(offset), _, _) => Some(AlignedWindow.sliding(size, slide, offset))
    case (_, _, _, Some(before), Some(after))          => Some(AroundWindow(before, after))
    case _                                             => None
  }

  private def ofRows: Option[WindowSpec] = (count, every, global) match {
    case (Some(count), Some(every), _)   => Some(CountWindow(count, every, timeout))
    case (_, Some(every), Some("every")) => Some(GlobalWindow(GlobalTrigger.Every(every), endsWith.isDefined))
    case (_, _, Some("when"))            => Some(GlobalWindow(GlobalTrigger.When))
    case (_, _, Some("changes"))         => Some(GlobalWindow(GlobalTrigger.Changes, endsWith.isDefined))
    case (_, _, Some("split"))           => trigger.map(function => GlobalWindow(GlobalTrigger.Split(function)))
    case _                               => None
  }

  def describe: String = {
    val sql = trigger.filterNot(_ => global.contains("split"))
    val text = gapByRow.fold(spec.describe)(gap => spec.describe.replace(SessionWindow.EachRowsOwn, gap))
    text + sql.fold("")(sql => s" ($sql)") + endsWith.fold("")(sql => s" ($sql)")
  }
}

object HeaderWindow {
  private val none = HeaderWindow(None, None, None, None, None, None, None, None)

  def apply(window: WindowSpec, gapByRow: Option[String], trigger: Option[String]): HeaderWindow = window match {
    case AlignedWindow(size, slide, offset) =>
      none.copy(size = Some(size), slide = Some(slide), offset = Some(offset))
    case CumulativeWindow(AlignedWindow(size, _, offset), AlignedWindow(step, _, _)) =>
      none.copy(size = Some(size), step = Some(step), offset = Some(offset))
    case CumulativeWindow(cycles, AlignedWindow(step, _, _)) =>
      apply(cycles, gapByRow, trigger).copy(step = Some(step))
    case CumulativeWindow(cycles, CalendarWindow(days, months, _, _, _, _)) =>
      apply(cycles, gapByRow, trigger).copy(
        stepDays = Option.when(days > 0)(days),
        stepMonths = Option.when(months > 0)(months)
      )
    case other: CumulativeWindow => throw new IllegalStateException(s"$other has other steps")
    case CalendarWindow(days, months, slides, first, shift, zone) =>
      none.copy(
        days = Some(days),
        months = Some(months),
        slides = Some(slides),
        first = Some(first),
        shift = Some(shift),
        zone = Some(zone)
      )
    case SessionWindow(gap)                             => none.copy(gap = gap, gapByRow = gapByRow)
    case OrderedWindow(gap, maxLength, _, fromFirstRow) =>
      none.copy(
        gap = gap,
        gapByRow = gapByRow,
        trigger = trigger,
        maxLength = maxLength,
        fromFirstRow = Option.when(fromFirstRow)(true)
      )
    case AroundWindow(before, after)        => none.copy(before = Some(before), after = Some(after))
    case CustomWindow(ranges)               => none.copy(ranges = Some(ranges))
    case CountWindow(count, every, timeout) =>
      none.copy(count = Some(count), every = Some(every), timeout = timeout)
    case GlobalWindow(GlobalTrigger.Every(rows), _) => none.copy(every = Some(rows), global = Some("every"))
    case GlobalWindow(GlobalTrigger.When, _)        => none.copy(global = Some("when"), trigger = trigger)
    case GlobalWindow(GlobalTrigger.Changes, _)     => none.copy(global = Some("changes"), trigger = trigger)
    case GlobalWindow(GlobalTrigger.Split(of), _)   => none.copy(global = Some("split"), trigger = Some(of))
  }
}
