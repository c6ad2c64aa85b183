package dev.mullion.windows.rules

import dev.mullion.windows.spec.TimeMath

/** The right rows that an as-of join considers for a left row at time T:
  *
  * {{{
  *              tolerance   T   tolerance
  *   backward   |-----------|               the last one
  *   forward                |-----------|   the first one
  *   nearest    |-----------|-----------|   the nearer of both; of two at the same distance, the earlier
  * }}}
  */
sealed abstract class AsOfDirection(val name: String) extends Product with Serializable

object AsOfDirection {
  case object Backward extends AsOfDirection("backward")
  case object Forward extends AsOfDirection("forward")
  case object Nearest extends AsOfDirection("nearest")

  val all: Seq[AsOfDirection] = Seq(Backward, Forward, Nearest)
}

/** The rules of an as-of join. Times are microseconds.
  *
  * @param tolerance
  *   the longest distance between two rows that match; none for any, which only `Backward` supports
  * @param allowExact
  *   whether rows of equal times match
  */
final case class AsOfRules(direction: AsOfDirection, tolerance: Option[Long], allowExact: Boolean) {
  require(direction == AsOfDirection.Backward || tolerance.isDefined, s"$direction needs a tolerance")

  /** The time after a left row in which right rows can match it. */
  val ahead: Long = if (direction == AsOfDirection.Backward) 0L else tolerance.get

  /** The time for which a right row stays in state: until the last left row that it can match is due. */
  val keep: Option[Long] =
    tolerance.map(within => if (direction == AsOfDirection.Nearest) TimeMath.times(within, 2L) else within)

  /** The clock reading by which all right rows that can match a left row have arrived. */
  def due(left: Long): Long = TimeMath.plus(left, ahead)

  /** The clock reading by which all left rows that a right row can match are emitted; none if there is no last one. */
  def needless(right: Long): Option[Long] = keep.map(TimeMath.plus(right, _))

  /** True if a right row before a left row is near enough. */
  def reaches(right: Long, left: Long): Boolean = tolerance.forall(TimeMath.minus(left, right) <= _)

  /** The start of the range of times before a left row that match. */
  def first(left: Long): Long = tolerance.fold(Long.MinValue)(TimeMath.minus(left, _))

  /** The end of that range, exclusive. */
  def endBehind(left: Long): Long = if (allowExact) TimeMath.plus(left, 1L) else left

  /** The start of the range of times after a left row that match. */
  def startAhead(left: Long): Long = if (allowExact) left else TimeMath.plus(left, 1L)

  /** The end of that range, exclusive. */
  def endAhead(left: Long): Long = TimeMath.plus(due(left), 1L)

  /** The event-time watermark for downstream operators: later output has later left rows. */
  def outputWatermark(clock: Long): Long = Math.max(0L, TimeMath.minus(clock, ahead))
}
