package dev.mullion.windows.clock

import scala.collection.mutable

/** Counts of due times in intervals of equal width. The width grows with the range of the times, so that its size is
  * bounded: from a second to a thousand days. Times are microseconds.
  *
  * {{{
  *   width 1 min    10:00 3   10:01 5   10:03 1  ..      too many intervals
  *   width 10 min   10:00 9   ..
  * }}}
  */
final class DueHistogram extends Serializable {
  import DueHistogram._

  private var step = 0
  private var counts = mutable.HashMap.empty[Long, Long]

  private def widthNow: Long = Widths(step)

  def add(time: Long, number: Long = 1L): Unit = {
    val at = Math.floorDiv(Math.max(-Limit, Math.min(Limit, time)), widthNow)
    counts(at) = counts.getOrElse(at, 0L) + number
    while (counts.size > Most && step < Widths.length - 1) widen(step + 1)
  }

  /** Adds the counts of another one. */
  def merge(other: DueHistogram): this.type = {
    if (other.step > step) widen(other.step)
    other.counts.foreach { case (at, number) => add(at * other.widthNow, number) }
    this
  }

  private def widen(to: Int): Unit = {
    val before = widthNow
    step = to
    counts =
      counts.groupMapReduce { case (at, _) => Math.floorDiv(at * before, widthNow) }(_._2)(_ + _).to(mutable.HashMap)
  }

  /** The width, and the intervals with their counts in order of time: at most [[DueHistogram.Bars]] of them, with those
    * between that have none. A range that is too long for these ends with the interval of all later times.
    */
  def bars: (Long, Seq[(Long, Long)]) =
    if (counts.isEmpty) (widthNow, Nil)
    else {
      val shown = new DueHistogram().merge(this)
      def span = shown.counts.keys.max - shown.counts.keys.min + 1
      while (span > Bars && shown.step < Widths.length - 1) shown.widen(shown.step + 1)
      val first = shown.counts.keys.min
      val all = Array.ofDim[Long](Math.min(span, Bars.toLong).toInt)
      shown.counts.foreach { case (at, number) => all(Math.min(at - first, all.length - 1L).toInt) += number }
      (shown.widthNow, all.toSeq.zipWithIndex.map { case (number, i) => (first + i) * shown.widthNow -> number })
    }
}

object DueHistogram {

  /** The largest number of intervals of `bars`. */
  val Bars = 60

  private val Most = 500

  // Keeps products of intervals and widths within the range of numbers: 146 000 years.
  private val Limit = 1L << 62
  private val Widths = Vector(1L, 10L, 60L, 600L, 3600L, 21600L, 86400L, 864000L, 8640000L, 86400000L).map(_ * 1000000L)
}
