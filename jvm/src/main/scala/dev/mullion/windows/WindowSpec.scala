package dev.mullion.windows

import dev.mullion.MullionException

/** Which windows a row falls into. A window is a half-open interval `[start, end)` of event time; all times and lengths
  * are microseconds. Windows of a spec start on the grid `offset + k * slide` and are `size` long:
  *
  * {{{
  *   Tumbling(4)            Sliding(6, 4)               Sliding(2, 4): a gap between windows
  *   |---|---|---|          |-----|                     |-|   |-|   |-|
  *                              |-----|
  * }}}
  *
  * @param size
  *   the length of a window, > 0
  * @param slide
  *   the distance between the starts of consecutive windows, > 0
  * @param offset
  *   where the grid of starts is shifted to, in `[0, slide)`
  */
final case class WindowSpec private (size: Long, slide: Long, offset: Long) {

  /** Whether a row can fall into more than one window. */
  def overlaps: Boolean = slide < size

  /** Whether a row can fall into no window. */
  def hasGaps: Boolean = slide > size

  /** The start of the last window that starts at or before `ts`. */
  def lastStart(ts: Long): Long = TimeMath.floor(ts, slide, offset)

  def end(start: Long): Long = TimeMath.plus(start, size)

  /** The spec in words, for `explain()` and error messages. */
  def describe: String = {
    val shift = if (offset == 0) "" else s", offset ${Duration.describe(offset)}"
    if (slide == size) s"tumbling ${Duration.describe(size)}$shift"
    else s"sliding ${Duration.describe(size)} every ${Duration.describe(slide)}$shift"
  }
}

object WindowSpec {

  /** Windows that follow one another without overlap or gap. */
  def tumbling(size: Long, offset: Long = 0L): WindowSpec = sliding(size, size, offset)

  /** Windows of `size` that start every `slide`. */
  def sliding(size: Long, slide: Long, offset: Long = 0L): WindowSpec = {
    requirePositive("size", size)
    requirePositive("slide", slide)
    new WindowSpec(size, slide, Math.floorMod(offset, slide))
  }

  private def requirePositive(name: String, us: Long): Unit =
    if (us <= 0)
      throw MullionException.invalid(
        s"The window's $name is ${Duration.describe(us)}: a window needs a $name of at least 1 microsecond. " +
          s"Give a positive duration, such as '10 seconds'."
      )
}
