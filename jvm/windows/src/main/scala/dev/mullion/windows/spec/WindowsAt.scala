package dev.mullion.windows.spec

/** The windows and the slice of one time, by arithmetic on that time alone.
  *
  * {{{
  *   size 5, slide 2, a time `t`     |----0----|
  *                                       |----1----|
  *                                           |----2----|
  *                                            t
  *                                           |.| |      the slice of `t`: no window's edge is inside of it
  * }}}
  *
  * Unlike in `SliceGrid`, nothing is numbered here, so no number can overflow, whatever the lengths.
  */
final class WindowsAt(val window: AlignedWindow) extends Serializable {
  import window.{offset, size, slide}

  private val rest = size % slide

  /** The number of windows that hold `ts`. */
  def count(ts: Long): Long = {
    val past = TimeMath.pastGrid(ts, slide, offset)
    if (past < size) (size - past - 1) / slide + 1 else 0
  }

  /** The start of the `i`th of them, in order of start. */
  def start(ts: Long, i: Long): Long =
    // The subtrahend is less than `size`, since the window holds `ts`.
    TimeMath.minus(ts, TimeMath.pastGrid(ts, slide, offset) + (count(ts) - 1 - i) * slide)

  /** The end of the `i`th of them. */
  def end(ts: Long, i: Long): Long =
    // The addend is at most `size`.
    TimeMath.plus(ts, size - TimeMath.pastGrid(ts, slide, offset) - (count(ts) - 1 - i) * slide)

  /** True if `ts` is in a window, and so in a slice. */
  def holds(ts: Long): Boolean = TimeMath.pastGrid(ts, slide, offset) < size

  /** The start of the slice of `ts`, which is in a window. */
  def sliceStart(ts: Long): Long = {
    val past = TimeMath.pastGrid(ts, slide, offset)
    TimeMath.minus(ts, if (past < rest) past else past - rest)
  }

  /** The end of the slice of `ts`, which is in a window. */
  def sliceEnd(ts: Long): Long = {
    val past = TimeMath.pastGrid(ts, slide, offset)
    TimeMath.plus(ts, if (past < rest) rest - past else slide - past)
  }
}
