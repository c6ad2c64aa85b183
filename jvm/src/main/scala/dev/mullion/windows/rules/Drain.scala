package dev.mullion.windows.rules

import dev.mullion.windows.spec.{
  CustomWindow,
  GridWindow,
  RowNumberWindow,
  SessionWindow,
  SliceGrid,
  TimeMath,
  WindowSpec
}

/** How one window takes the place of another in a query that goes on: by the time of its rows. What is before the
  * boundary enters the window of before alone, what is at it or after it the new one alone, whenever it comes.
  *
  * {{{
  *   rows seen so far ............... x
  *   the window of before |--------|--------|            its panes close by its own rules; then it has none any more
  *   boundary                               |
  *   the new window                         |-----------------|-----------------|
  * }}}
  *
  * The boundary comes after all rows that the query has seen, so that panes of before hold all rows of their side, and
  * so do the new ones.
  *
  * @param boundary
  *   in microseconds
  * @param until
  *   by which clock all panes of before have closed, and a row before the boundary is late for whichever window
  */
final case class Drain(boundary: Long, until: Long) {

  /** Whether the window of before is no longer needed once the clock of a batch has come to `clock`. */
  def isOver(clock: Long): Boolean = clock >= until

  /** What is told downstream of event time: the new window has no pane that ends at the boundary or before it. */
  def outputWatermark(was: Long, now: Long): Long = Math.min(was, Math.max(boundary, now))
}

object Drain {

  /** @param seen
    *   a time after all rows that the query has seen, in microseconds
    */
  def apply(was: PaneRules, now: PaneRules, seen: Long): Drain = {
    val at = boundary(was.window, now.window, seen)
    Drain(at, Math.max(over(was, at), over(now, at)))
  }

  /** Why a window cannot take the place of another, if it cannot: in words that go on after "which cannot drain: ". */
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
          Some("with empty='emit' windows without rows would close on both sides of the boundary")
        case _ if either(takesAway) =>
          Some("windows that overlap, with accumulate=False, cannot share an operator")
        case _ if was.refinements.atEnd != now.refinements.atEnd            => Some("at_end must stay as it was")
        case _: SessionWindow if was.refinements.ids != now.refinements.ids =>
          Some("open sessions go on with ids, or without, as they began")
        case _ => None
      }
  }

  /** Where a window takes another's place: at an edge of both, if there is one soon; else at an edge of the window of
    * before, whose panes are whole then; else at an edge of the new one. Sessions and windows about rows have no edges.
    */
  def boundary(was: WindowSpec, now: WindowSpec, seen: Long): Long = (was, now) match {
    case (a: GridWindow, b: GridWindow) => common(a.grid, b.grid, seen).getOrElse(edge(a.grid, seen))
    case (a: GridWindow, _)             => edge(a.grid, seen)
    case (_, b: GridWindow)             => edge(b.grid, seen)
    case _                              => seen
  }

  /** How many of the longer slides may pass until both windows have an edge. */
  private val Soon = 10L

  private def common(a: SliceGrid, b: SliceGrid, seen: Long): Option[Long] = {
    def slide(grid: SliceGrid) = {
      val at = grid.windowAt(seen)
      TimeMath.minus(grid.windowStart(at + 1), grid.windowStart(at))
    }
    val last = TimeMath.plus(seen, TimeMath.times(Soon, Math.max(slide(a), slide(b))))
    // Each step passes the longer slide at least.
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

  /** By which clock all panes have closed that hold a row before the boundary. */
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
