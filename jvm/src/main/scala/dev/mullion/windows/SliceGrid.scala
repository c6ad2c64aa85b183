package dev.mullion.windows

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
final class SliceGrid(val spec: AlignedWindow) extends Serializable {
  import spec.{offset, size, slide}

  private val whole = size / slide
  private val rest = size % slide
  private val split = rest != 0

  /** The ordinal of the slice that holds time `ts`. */
  def ordinalOf(ts: Long): Long = {
    val window = windowAt(ts)
    if (split) 2 * window + (if (TimeMath.pastGrid(ts, slide, offset) >= rest) 1 else 0)
    else window
  }

  /** The number of the last window that starts at or before `ts`. */
  def windowAt(ts: Long): Long =
    // floorDiv(ts - offset, slide) without the overflow of ts - offset
    Math.floorDiv(ts, slide) - (if (Math.floorMod(ts, slide) < offset) 1 else 0)

  def windowStart(window: Long): Long =
    // Both terms have one sign, so that the sum of the clamped is the clamped sum.
    if (window >= 0) TimeMath.plus(TimeMath.times(window, slide), offset)
    else TimeMath.plus(TimeMath.times(window + 1, slide), offset - slide)

  def windowEnd(window: Long): Long = {
    val start = windowStart(window)
    // A window that begins before time still ends where it ends.
    if (start == Long.MinValue) {
      val end = BigInt(window) * slide + offset + size
      if (end < Long.MinValue) Long.MinValue else end.toLong
    } else TimeMath.plus(start, size)
  }

  /** The first slice of a window. `Long.MinValue`, before all windows, is before all slices. */
  def firstSlice(window: Long): Long = if (split) TimeMath.times(2, window) else window

  /** The last slice of a window. */
  def lastSlice(window: Long): Long =
    if (split) TimeMath.times(2, TimeMath.plus(window, whole)) else TimeMath.plus(window, whole - 1)

  /** The first window that holds a slice. */
  def firstWindow(ordinal: Long): Long =
    if (split) (ordinal >> 1) - whole + (ordinal & 1) else ordinal - whole + 1

  /** The last window that holds a slice. */
  def lastWindow(ordinal: Long): Long = if (split) ordinal >> 1 else ordinal

  /** The first window whose end lies after `t`, so the first that is still open when windows close at their end. */
  def firstWindowEndingAfter(t: Long): Long =
    // end(w) > t  iff  start(w) > t - size  iff  w > windowAt(t - size)
    windowAt(TimeMath.minus(t, size)) + 1
}
