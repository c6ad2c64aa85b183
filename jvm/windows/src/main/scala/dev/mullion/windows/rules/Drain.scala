package dev.mullion.windows.rules

import dev.mullion.windows.spec.{
  CustomWindow,
  GridWindow,
  RowNumberWindow,
  SessionWindow,
  Setting,
  SliceGrid,
  TimeMath,
  WindowSpec
}

/** The replacement of one window by another in a continued query, by the time of rows. Rows before the boundary enter
  * the old window only, rows at or after it the new one only, in any order of arrival.
  *
  * {{{
  *   rows seen so far ............... x
  *   the old window       |--------|--------|            its panes close by its own rules; then it has none any more
  *   boundary                               |
  *   the new window                         |-----------------|-----------------|
  * }}}
  *
  * The boundary is after all rows that the query has processed, so the panes on both sides are complete.
  *
  * @param boundary
  *   in microseconds
  * @param until
  *   the clock by which all old panes have closed; a row before the boundary is then late for either window
  */
final case class Drain(boundary: Long, until: Long) {

  /** True if the old window is no longer needed once the clock of a batch has reached `clock`. */
  def isOver(clock: Long): Boolean = clock >= until

  /** The event-time watermark for downstream operators: the new window has no pane that ends at or before the boundary.
    */
  def outputWatermark(was: Long, now: Long): Long = Math.min(was, Math.max(boundary, now))
}

object Drain {

  /** @param seen
    *   a time after all rows that the query has processed, in microseconds
    */
  def apply(was: PaneRules, now: PaneRules, seen: Long): Drain = {
    val at = boundary(was.window, now.window, seen)
    Drain(at, Math.max(over(was, at), over(now, at)))
  }

  /** The reason why a window cannot replace another, if any: the continuation of "which cannot drain: ". */
  def refusal(was: PaneRules, now: PaneRules): Option[String] = {
    def either(what: PaneRules => Boolean) = what(was) || what(now)
    def isNumbered(rules: PaneRules) = rules.window.isInstanceOf[RowNumberWindow]
    def takesAway(rules: PaneRules) = rules match {
      case aligned: AlignedRules => aligned.keepsApart
      case _                     => false
    }
    if (either(isNumbered))
      Some("windows of row numbers have no clock, and no time at which one takes the other's place")
    else if (was.clock != now.clock) Some("both must go by one clock, event time or processing time")
    else
      was.window match {
        case SessionWindow(None)              => Some("what each row's gap was computed from is not known any more")
        case _: CustomWindow                  => Some("what each row's ranges were computed from is not known any more")
        case _ if either(_.refinements.empty) =>
          val option = Seq(was, now).map(_.refinements).find(_.empty).get.emptyOption
          Some(s"with $option windows without rows would close on both sides of the boundary")
        case _ if either(takesAway) =>
          Some(s"windows that overlap, with ${Setting.NotAccumulating}, cannot share an operator")
        case _ if was.refinements.atEnd != now.refinements.atEnd            => Some("at_end must stay as it was")
        case _: SessionWindow if was.refinements.ids != now.refinements.ids =>
          Some("open sessions stay with ids, or without, as they opened")
        case _ => None
      }
  }

  /** The boundary: an edge of both windows, if there is one soon; else an edge of the old window, whose panes are then
    * complete; else an edge of the new one. Sessions and windows around rows have no edges.
    */
  def boundary(was: WindowSpec, now: WindowSpec, seen: Long): Long = (was, now) match {
    case (a: GridWindow, b: GridWindow) => common(a.grid, b.grid, seen).getOrElse(edge(a.grid, seen))
    case (a: GridWindow, _)             => edge(a.grid, seen)
    case (_, b: GridWindow)             => edge(b.grid, seen)
    case _                              => seen
  }

  /** The number of longer slides within which both windows must have a common edge. */
  private val Soon = 10L

  private def common(a: SliceGrid, b: SliceGrid, seen: Long): Option[Long] = {
    def slide(grid: SliceGrid) = {
      val at = grid.windowAt(seen)
      TimeMath.minus(grid.windowStart(at + 1), grid.windowStart(at))
    }
    val last = TimeMath.plus(seen, TimeMath.times(Soon, Math.max(slide(a), slide(b))))
    // Each step passes at least the longer slide.
    Iterator
      .iterate(edge(a, seen))(at => edge(a, edge(b, at)))
      .takeWhile(_ <= last)
      .take(Soon.toInt + 2)
      .find(at => at != Long.MaxValue && edge(b, at) == at)
  }

  /** The first start of a window at or after `t`. */
  private def edge(grid: SliceGrid, t: Long): Long = {
    val at = grid.windowAt(t)
    if (grid.windowStart(at) == t) t else grid.windowStart(at + 1)
  }

  /** The clock by which all panes with a row before the boundary have closed. */
  private def over(rules: PaneRules, boundary: Long): Long = {
    val last = TimeMath.minus(boundary, 1)
    rules match {
      case aligned: AlignedRules  => aligned.windowCloseDue(aligned.grid.windowAt(last))
      case around: AroundRules    => around.expires(last)
      case sessions: SessionRules => sessions.closeDue(TimeMath.plus(last, sessions.window.gap.getOrElse(1L)))
      case other                  => other.closeDue(boundary)
    }
  }
}
