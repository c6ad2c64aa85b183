package dev.mullion.windows.spec

/** Windows and their slices by numbers, so that all questions about which window holds which slice are arithmetic on
  * whole numbers. Windows are numbered in order of their starts, slices in order of time.
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

  /** The first window whose end lies after `t`, so the first that is still open when windows close at their end. */
  def firstWindowEndingAfter(t: Long): Long

  /** The last window whose end lies at or before `t`. */
  def lastWindowEndingBy(t: Long): Long = firstWindowEndingAfter(t) - 1
}

/** The grid of windows whose length differs from one to the next, as days do where clocks are put forward. They follow
  * one another without overlap or gap, and each is a slice.
  *
  * {{{
  *   windows   |---- 19 ----|--- 20 ---|---- 21 ----|      20 is a day of 23 hours
  * }}}
  *
  * Where a window starts is worked out by the calendar once, and then known: a row costs a few looks into an array.
  */
final class CalendarGrid(spec: CalendarWindow) extends SliceGrid {
  @transient private lazy val known = Array.fill(CalendarGrid.Known)(CalendarGrid.nothing)

  override def windowAt(ts: Long): Long = {
    var window = spec.near(ts)
    while (windowStart(window) > ts) window -= 1
    while (windowStart(window + 1) <= ts && windowStart(window + 1) != Long.MaxValue) window += 1
    window
  }

  override def windowStart(window: Long): Long = {
    val at = (window & (CalendarGrid.Known - 1)).toInt
    // Tasks may share a grid: what is read is of one window, whoever wrote it.
    val start = known(at)
    if (start.window == window) start.time
    else {
      val time = spec.start(window)
      known(at) = new CalendarGrid.Start(window, time)
      time
    }
  }

  override def windowEnd(window: Long): Long = windowStart(if (window == Long.MaxValue) window else window + 1)

  override def ordinalOf(ts: Long): Long = windowAt(ts)
  override def firstSlice(window: Long): Long = window
  override def lastSlice(window: Long): Long = window
  override def firstWindow(ordinal: Long): Long = ordinal
  override def lastWindow(ordinal: Long): Long = ordinal
  override def firstWindowEndingAfter(t: Long): Long = windowAt(t)
}

private object CalendarGrid {

  /** How many starts are known at a time: a power of two. */
  final val Known = 256

  final class Start(val window: Long, val time: Long)

  // No window has this number; what stands at the places of others says so.
  private val nothing = new Start(Long.MinValue, Long.MinValue)
}

/** The slices of overlapping windows. A slice is the largest interval that no window edge cuts, so a row is stored
  * once, in its slice, however many windows cover it; a pane is the sum of its slices.
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
  * if slide divides size, else two (the ends fall `size % slide` after a start). All questions about which window holds
  * which slice are then arithmetic on whole numbers, with no overflow to think of.
  */
final class EvenGrid(val spec: AlignedWindow) extends SliceGrid {
  import spec.{offset, size, slide}

  private val whole = size / slide
  private val rest = size % slide
  private val split = rest != 0

  override def ordinalOf(ts: Long): Long = {
    val window = windowAt(ts)
    if (split) 2 * window + (if (TimeMath.pastGrid(ts, slide, offset) >= rest) 1 else 0)
    else window
  }

  override def windowAt(ts: Long): Long = TimeMath.gridIndex(ts, slide, offset)

  override def windowStart(window: Long): Long =
    // Both terms have one sign, so that the sum of the clamped is the clamped sum.
    if (window >= 0) TimeMath.plus(TimeMath.times(window, slide), offset)
    else TimeMath.plus(TimeMath.times(window + 1, slide), offset - slide)

  override def windowEnd(window: Long): Long = {
    val start = windowStart(window)
    // A window that begins before time still ends where it ends.
    if (start == Long.MinValue) {
      val end = BigInt(window) * slide + offset + size
      if (end < Long.MinValue) Long.MinValue else end.toLong
    } else TimeMath.plus(start, size)
  }

  override def firstSlice(window: Long): Long = if (split) TimeMath.times(2, window) else window

  override def lastSlice(window: Long): Long =
    if (split) TimeMath.times(2, TimeMath.plus(window, whole)) else TimeMath.plus(window, whole - 1)

  override def firstWindow(ordinal: Long): Long =
    if (split) (ordinal >> 1) - whole + (ordinal & 1) else ordinal - whole + 1

  override def lastWindow(ordinal: Long): Long = if (split) ordinal >> 1 else ordinal

  override def firstWindowEndingAfter(t: Long): Long =
    // end(w) > t  iff  start(w) > t - size  iff  w > windowAt(t - size)
    if (t < Long.MinValue + size) {
      val (window, past) = (BigInt(t) - size - offset) /% slide
      (if (past < 0) window - 1 else window).toLong + 1
    } else windowAt(t - size) + 1
}
