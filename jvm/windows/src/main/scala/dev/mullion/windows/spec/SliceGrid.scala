package dev.mullion.windows.spec

import java.time.{LocalDate, LocalTime, ZoneId}

/** Windows and slices by number, which makes every question about them integer arithmetic. Windows are numbered in
  * order of their starts, slices in order of time.
  */
sealed abstract class SliceGrid extends Serializable {

  /** The ordinal of the slice that holds time `ts`. */
  def ordinalOf(ts: Long): Long

  /** The number of the last window that starts at or before `ts`. */
  def windowAt(ts: Long): Long

  def windowStart(window: Long): Long

  def windowEnd(window: Long): Long

  /** The first slice of a window. `Long.MinValue`, before all windows, is before all slices. */
  def firstSlice(window: Long): Long

  /** The last slice of a window. */
  def lastSlice(window: Long): Long

  /** The first window that holds a slice. */
  def firstWindow(ordinal: Long): Long

  /** The last window that holds a slice. */
  def lastWindow(ordinal: Long): Long

  /** The first window whose end is after `t`. */
  def firstWindowEndingAfter(t: Long): Long

  /** The last window whose end is at or before `t`. */
  def lastWindowEndingBy(t: Long): Long = firstWindowEndingAfter(t) - 1
}

/** The grid of windows of varying length, such as days with daylight-saving changes. One starts where each slice
  * starts; it spans `slides` slices.
  *
  * {{{
  *   slides 1   |---- 19 ----|--- 20 ---|---- 21 ----|      20 is a day of 23 hours
  *   slides 2   |-------- 19 -----------|
  *                           |--------- 20 ----------|
  * }}}
  *
  * The start of a window is computed by the calendar once and cached, so a row costs a few array lookups.
  */
final class CalendarGrid(spec: CalendarWindow) extends SliceGrid {
  @transient private lazy val cache = Array.fill(CalendarGrid.Known)(CalendarGrid.nothing)
  @transient private lazy val zone = ZoneId.of(spec.zone).getRules
  private val others = spec.slides - 1L
  private val shiftDays = Math.floorDiv(spec.shift, CalendarWindow.Day)
  private val timeOfDay = LocalTime.ofNanoOfDay(Math.floorMod(spec.shift, CalendarWindow.Day) * 1000L)
  private val unit = if (spec.days > 0) CalendarWindow.Day else CalendarWindow.Month
  private val average = (if (spec.days > 0) spec.days else spec.months) * unit

  override def windowAt(ts: Long): Long = {
    var window = near(ts)
    while (windowStart(window) > ts) window -= 1
    while (windowStart(window + 1) <= ts && windowStart(window + 1) != Long.MaxValue) window += 1
    window
  }

  override def windowStart(window: Long): Long = {
    val at = (window & (CalendarGrid.Known - 1)).toInt
    // Tasks may share a grid. An entry is immutable, so races are harmless.
    val start = cache(at)
    if (start.window == window) start.time
    else {
      val time = computedStart(window)
      cache(at) = new CalendarGrid.Start(window, time)
      time
    }
  }

  /** A window at most a few from the one that holds `ts`. */
  private def near(ts: Long): Long =
    Math.floorDiv(TimeMath.minus(ts, TimeMath.plus(spec.shift, spec.first * unit)), average)

  /** The start of a window, clamped to the range of time. */
  private def computedStart(window: Long): Long = {
    val most = Long.MaxValue / average + 2
    if (window > most) Long.MaxValue
    else if (window < -most) Long.MinValue
    else {
      val date =
        if (spec.days > 0) LocalDate.ofEpochDay(spec.first + window * spec.days)
        else LocalDate.EPOCH.plusMonths(spec.first + window * spec.months)
      CalendarText.timeOf(date.plusDays(shiftDays).atTime(timeOfDay), zone)
    }
  }

  override def windowEnd(window: Long): Long = windowStart(TimeMath.plus(window, spec.slides.toLong))

  override def ordinalOf(ts: Long): Long = windowAt(ts)
  override def firstSlice(window: Long): Long = window
  override def lastSlice(window: Long): Long = TimeMath.plus(window, others)
  override def firstWindow(ordinal: Long): Long = ordinal - others
  override def lastWindow(ordinal: Long): Long = ordinal
  override def firstWindowEndingAfter(t: Long): Long = windowAt(t) - others
}

/** The grid of windows that grow from one start. Windows and slices are numbered by their ends: window `w` ends with
  * slice `w`, and the windows of a cycle begin with its first slice. A slice is a step. It belongs to the cycle in
  * which it starts.
  *
  * @param cycles
  *   the grid of the cycles, without overlap
  * @param steps
  *   the grid of the steps, without overlap
  */
final class CumulativeGrid(cycles: SliceGrid, steps: SliceGrid) extends SliceGrid {
  private def cycleOf(slice: Long): Long = cycles.windowAt(steps.windowStart(slice))

  /** The first step that starts at or after `t`. */
  private def stepFrom(t: Long): Long = {
    val step = steps.windowAt(t)
    if (steps.windowStart(step) == t) step else step + 1
  }

  override def ordinalOf(ts: Long): Long = steps.ordinalOf(ts)

  override def windowAt(ts: Long): Long = lastWindow(steps.windowAt(ts))

  override def windowStart(window: Long): Long = steps.windowStart(firstSlice(window))

  override def windowEnd(window: Long): Long = steps.windowEnd(window)

  // A number of a window before or after all time is its own first and last slice.
  override def firstSlice(window: Long): Long = Math.min(window, stepFrom(cycles.windowStart(cycleOf(window))))

  override def lastSlice(window: Long): Long = window

  override def firstWindow(ordinal: Long): Long = ordinal

  override def lastWindow(ordinal: Long): Long = Math.max(ordinal, stepFrom(cycles.windowEnd(cycleOf(ordinal))) - 1)

  override def firstWindowEndingAfter(t: Long): Long = steps.firstWindowEndingAfter(t)
}

private object CalendarGrid {

  /** The size of the cache: a power of two. */
  final val Known = 256

  final class Start(val window: Long, val time: Long)

  // The number of an unused cache entry, which no window has.
  private val nothing = new Start(Long.MinValue, Long.MinValue)
}

/** The slices of overlapping windows. A slice is the largest interval without a window edge inside. A row is stored
  * once, in its slice, and a pane is the sum of its slices.
  *
  * {{{
  *   size 5, slide 2:  windows   |----0----|
  *                                   |----1----|
  *                                       |----2----|
  *                     slices    | |.| |.| |.| |.|        `|` on the grid of starts, `.` where windows end
  *                     ordinal    0 1 2 3 4 5 6 7
  * }}}
  *
  * Windows are numbered by their start (`offset + window * slide`), slices by `ordinal` in order of time: one per slide
  * if slide divides size, else two (the ends fall `size % slide` after a start). This arithmetic cannot overflow.
  */
final class EvenGrid(val spec: AlignedWindow) extends SliceGrid {
  import spec.{offset, size, slide}

  private val slidesPerWindow = size / slide
  private val rest = size % slide
  private val split = rest != 0

  override def ordinalOf(ts: Long): Long = {
    val window = windowAt(ts)
    if (split) 2 * window + (if (TimeMath.pastGrid(ts, slide, offset) >= rest) 1 else 0)
    else window
  }

  override def windowAt(ts: Long): Long = TimeMath.gridIndex(ts, slide, offset)

  override def windowStart(window: Long): Long =
    // Both terms have the same sign, so the sum of the clamped terms is the clamped sum.
    if (window >= 0) TimeMath.plus(TimeMath.times(window, slide), offset)
    else TimeMath.plus(TimeMath.times(window + 1, slide), offset - slide)

  override def windowEnd(window: Long): Long = {
    val start = windowStart(window)
    // The end of a window that begins before time is computed without its start.
    if (start == Long.MinValue) {
      val end = BigInt(window) * slide + offset + size
      if (end < Long.MinValue) Long.MinValue else end.toLong
    } else TimeMath.plus(start, size)
  }

  override def firstSlice(window: Long): Long = if (split) TimeMath.times(2, window) else window

  override def lastSlice(window: Long): Long =
    if (split) TimeMath.times(2, TimeMath.plus(window, slidesPerWindow)) else TimeMath.plus(window, slidesPerWindow - 1)

  override def firstWindow(ordinal: Long): Long =
    if (split) (ordinal >> 1) - slidesPerWindow + (ordinal & 1) else ordinal - slidesPerWindow + 1

  override def lastWindow(ordinal: Long): Long = if (split) ordinal >> 1 else ordinal

  override def firstWindowEndingAfter(t: Long): Long =
    // end(w) > t  iff  start(w) > t - size  iff  w > windowAt(t - size)
    if (t < Long.MinValue + size) {
      val (window, past) = (BigInt(t) - size - offset) /% slide
      (if (past < 0) window - 1 else window).toLong + 1
    } else windowAt(t - size) + 1
}
