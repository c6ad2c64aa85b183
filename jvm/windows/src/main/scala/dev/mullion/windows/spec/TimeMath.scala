package dev.mullion.windows.spec

/** Arithmetic on time, in microseconds since the epoch, UTC. It saturates at the ends of `Long` and never wraps. Every
  * addition of times in Mullion uses it.
  */
object TimeMath {

  /** `a + b`, clamped to the range of `Long`. */
  def plus(a: Long, b: Long): Long = {
    val sum = a + b
    // Overflow iff both operands have the same sign and the sum has the other.
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

  /** The distance of `t` from the grid `offset + k * step`: in `[0, step)`. `offset` is in `[0, step)`. */
  def pastGrid(t: Long, step: Long, offset: Long): Long = {
    // The division dominates the cost, so there is only one.
    val past = Math.floorMod(t, step) - offset
    if (past < 0) past + step else past
  }

  /** The last point of the grid `offset + k * step` at or before `t`. */
  def floor(t: Long, step: Long, offset: Long): Long = minus(t, pastGrid(t, step, offset))

  /** The `k` of that point of the grid. */
  def gridIndex(t: Long, step: Long, offset: Long): Long = {
    // floorDiv(t - offset, step) without the overflow of t - offset, and with one division
    val steps = Math.floorDiv(t, step)
    if (t - steps * step < offset) steps - 1 else steps
  }

  /** Milliseconds, the unit of Spark's watermarks and batch timestamps, in microseconds. */
  def fromMillis(ms: Long): Long = times(ms, 1000L)

  /** Microseconds in milliseconds, floored as Spark floors watermarks. */
  def toMillis(us: Long): Long = Math.floorDiv(us, 1000L)
}
