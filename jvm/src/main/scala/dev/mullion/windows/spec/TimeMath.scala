package dev.mullion.windows.spec

/** Arithmetic on time, in microseconds since the epoch, UTC. It saturates at the ends of `Long` and never wraps: a
  * window that would end past the end of time ends there. Every addition of times in Mullion goes through here.
  */
object TimeMath {

  /** `a + b`, clamped to the range of `Long`. */
  def plus(a: Long, b: Long): Long = {
    val sum = a + b
    // The sum overflowed iff both operands have the sign that the sum has not.
    if (((a ^ sum) & (b ^ sum)) < 0) { if (a < 0) Long.MinValue else Long.MaxValue }
    else sum
  }

  /** `a - b`, clamped to the range of `Long`. */
  def minus(a: Long, b: Long): Long = {
    val difference = a - b
    if (((a ^ b) & (a ^ difference)) < 0) { if (a < 0) Long.MinValue else Long.MaxValue }
    else difference
  }

  /** `a * b`, clamped to the range of `Long`. */
  def times(a: Long, b: Long): Long = {
    val high = Math.multiplyHigh(a, b)
    val low = a * b
    if ((high == 0 && low >= 0) || (high == -1 && low < 0)) low
    else if ((a < 0) == (b < 0)) Long.MaxValue
    else Long.MinValue
  }

  /** How far `t` is past the grid `offset + k * step`: in `[0, step)`. `offset` is in `[0, step)`. */
  def pastGrid(t: Long, step: Long, offset: Long): Long = {
    // A division takes more time than all else here, so there is one.
    val past = Math.floorMod(t, step) - offset
    if (past < 0) past + step else past
  }

  /** The last point of the grid `offset + k * step` at or before `t`. */
  def floor(t: Long, step: Long, offset: Long): Long = minus(t, pastGrid(t, step, offset))

  /** Which point of the grid that is: its `k`. */
  def gridIndex(t: Long, step: Long, offset: Long): Long = {
    // floorDiv(t - offset, step) without the overflow of t - offset, and with one division
    val steps = Math.floorDiv(t, step)
    if (t - steps * step < offset) steps - 1 else steps
  }

  /** Whole milliseconds, as Spark keeps watermarks and batch timestamps, in microseconds. */
  def fromMillis(ms: Long): Long = times(ms, 1000L)

  /** Microseconds in whole milliseconds, floored as Spark floors watermarks. */
  def toMillis(us: Long): Long = Math.floorDiv(us, 1000L)
}
