package dev.mullion.windows.sets

import java.nio.ByteBuffer

import scala.collection.mutable

/** Counts of panes by the end of their windows, in intervals of equal width. The width grows with the number of
  * intervals, from a second to a thousand days, so that the size is bounded. Times are microseconds.
  *
  * {{{
  *   width 1 min    10:00 3   10:01 5   10:03 1  ..      too many intervals
  *   width 10 min   10:00 9   ..
  * }}}
  *
  * Counts may be negative, so that an instance can also be the changes of a batch. Each width is a multiple of all
  * smaller ones: a pane is in the same interval when it opens and when it closes, although the width has grown
  * meanwhile. Without any pane the width is a second again.
  */
final class EndCounts extends Serializable {
  import EndCounts._

  private var step = 0
  private var counts = mutable.HashMap.empty[Long, Long]
  // The interval of the last call, and the changes to its count: consecutive panes mostly have the same end.
  private var from = 0L
  private var until = 0L
  private var pending = 0L

  private def width: Long = Widths(step)

  /** Counts panes that opened, or with a negative number panes that closed. */
  def add(end: Long, number: Long = 1L): Unit = {
    val time = Math.max(-Limit, Math.min(Limit, end))
    if (time < from || time >= until) {
      settle()
      from = Math.floorDiv(time, width) * width
      until = from + width
    }
    pending += number
  }

  def remove(end: Long): Unit = add(end, -1L)

  /** Adds the counts of another one. */
  def merge(other: EndCounts): this.type = {
    other.settle()
    settle()
    if (other.step > step) widen(other.step)
    other.counts.foreach { case (at, number) => add(at * other.width, number) }
    this
  }

  /** The number of panes. */
  def total: Long = { settle(); counts.valuesIterator.sum }

  def isEmpty: Boolean = { settle(); counts.isEmpty }

  private def settle(): Unit = {
    if (pending != 0) {
      val at = Math.floorDiv(from, width)
      val number = counts.getOrElse(at, 0L) + pending
      if (number == 0) counts -= at else counts(at) = number
      pending = 0
    }
    while (counts.size > Most && step < Widths.length - 1) widen(step + 1)
    if (counts.isEmpty) step = 0
    from = 0L
    until = 0L
  }

  private def widen(to: Int): Unit = {
    val before = width
    step = to
    counts = counts
      .groupMapReduce { case (at, _) => Math.floorDiv(at * before, width) }(_._2)(_ + _)
      .filter(_._2 != 0)
      .to(mutable.HashMap)
  }

  /** The width, and the intervals with their counts in order of time: at most [[EndCounts.Bars]] of them, with those
    * between that have none. If there are [[EndCounts.Bars]], the last one also contains all later ends: a few panes
    * that end much later than the others do not make all intervals wide.
    */
  def bars: (Long, Seq[(Long, Long)]) = {
    settle()
    if (counts.isEmpty) (width, Nil)
    else {
      val shown = new EndCounts().merge(this)
      shown.settle()
      while (shown.areTooMany && shown.step < Widths.length - 1) shown.widen(shown.step + 1)
      val first = shown.counts.keys.min
      val all = Array.ofDim[Long](Math.min(shown.counts.keys.max - first + 1, Bars.toLong).toInt)
      shown.counts.foreach { case (at, number) => all(Math.min(at - first, all.length - 1L).toInt) += number }
      (shown.width, all.toSeq.zipWithIndex.map { case (number, i) => (first + i) * shown.width -> number })
    }
  }

  /** True if more than one pane in ten would be in the last interval for being later. */
  private def areTooMany: Boolean = {
    val last = counts.keys.min + Bars - 1
    val later = counts.iterator.collect { case (at, number) if at > last => number }.sum
    later * 10 > counts.valuesIterator.sum
  }

  def toBytes: Array[Byte] = {
    settle()
    val buffer = ByteBuffer.allocate(1 + 20 * counts.size)
    buffer.put(step.toByte)
    var before = 0L
    counts.toSeq.sorted.foreach { case (at, number) =>
      Varint.putSigned(buffer, at - before)
      Varint.putSigned(buffer, number)
      before = at
    }
    java.util.Arrays.copyOf(buffer.array, buffer.position())
  }
}

object EndCounts {

  /** The largest number of intervals of `bars`. */
  val Bars = 60

  private val Most = 4 * Bars

  // Keeps products of intervals and widths within the range of numbers: 146 000 years.
  private val Limit = 1L << 62
  private val Widths = Vector(1L, 10L, 60L, 600L, 3600L, 21600L, 86400L, 864000L, 8640000L, 86400000L).map(_ * 1000000L)

  def fromBytes(bytes: Array[Byte]): EndCounts = {
    val ends = new EndCounts
    val buffer = ByteBuffer.wrap(bytes)
    ends.step = buffer.get().toInt
    var at = 0L
    while (buffer.hasRemaining) {
      at += Varint.getSigned(buffer)
      ends.counts(at) = Varint.getSigned(buffer)
    }
    ends
  }
}
