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
  // Some may be 0.
  private var counts = mutable.LongMap.empty[Count]
  // The interval of the last call and its count: consecutive panes often have the same end.
  private var from = 0L
  private var until = 0L
  private var last = new Count

  private def width: Long = Widths(step)

  /** Counts panes that opened, or with a negative number panes that closed. */
  def add(end: Long, number: Long = 1L): Unit = {
    val time = Math.max(-Limit, Math.min(Limit, end))
    if (time < from || time >= until) {
      val before = counts.size
      find(time)
      if (counts.size > Math.max(before, Most)) {
        shrink()
        find(time)
      }
    }
    last.number += number
  }

  def remove(end: Long): Unit = add(end, -1L)

  /** Adds the counts of another one. */
  def merge(other: EndCounts): this.type = {
    other.shrink()
    if (other.step > step) widen(other.step)
    other.counts.foreachEntry((at, count) => add(at * other.width, count.number))
    this
  }

  /** The number of panes. */
  def total: Long = counts.valuesIterator.map(_.number).sum

  def isEmpty: Boolean = { shrink(); counts.isEmpty }

  private def find(time: Long): Unit = {
    val at = Math.floorDiv(time, width)
    last = counts.getOrNull(at)
    if (last eq null) {
      last = new Count
      counts.update(at, last)
    }
    from = at * width
    until = from + width
  }

  /** Removes counts of 0, and widens the intervals if they are too many. */
  private def shrink(): Unit = {
    counts.filterInPlace((_, count) => count.number != 0)
    while (counts.size > Most && step < Widths.length - 1) widen(step + 1)
    if (counts.isEmpty) step = 0
    forgetLast()
  }

  private def widen(to: Int): Unit = {
    val (before, ofBefore) = (width, counts)
    step = to
    counts = mutable.LongMap.empty
    forgetLast()
    ofBefore.foreachEntry { (at, count) =>
      find(at * before)
      last.number += count.number
    }
    counts.filterInPlace((_, count) => count.number != 0)
    forgetLast()
  }

  private def forgetLast(): Unit = {
    from = 0L
    until = 0L
  }

  /** The width, and the intervals with their counts in order of time: at most [[EndCounts.Bars]] of them, with those
    * between that have none. If there are [[EndCounts.Bars]], the last one also contains all later ends: a few panes
    * that end much later than the others do not make all intervals wide.
    */
  def bars: (Long, Seq[(Long, Long)]) = {
    shrink()
    if (counts.isEmpty) (width, Nil)
    else {
      val shown = new EndCounts().merge(this)
      shown.shrink()
      while (shown.areTooMany && shown.step < Widths.length - 1) shown.widen(shown.step + 1)
      val first = shown.counts.keys.min
      val all = Array.ofDim[Long](Math.min(shown.counts.keys.max - first + 1, Bars.toLong).toInt)
      shown.counts.foreachEntry((at, count) => all(Math.min(at - first, all.length - 1L).toInt) += count.number)
      (shown.width, all.toSeq.zipWithIndex.map { case (number, i) => (first + i) * shown.width -> number })
    }
  }

  /** True if more than one pane in ten would be in the last interval for being later. */
  private def areTooMany: Boolean = {
    val lastShown = counts.keys.min + Bars - 1
    val later = counts.iterator.collect { case (at, count) if at > lastShown => count.number }.sum
    later * 10 > total
  }

  def toBytes: Array[Byte] = {
    shrink()
    val buffer = ByteBuffer.allocate(1 + 20 * counts.size)
    buffer.put(step.toByte)
    var before = 0L
    counts.toSeq.sortBy(_._1).foreach { case (at, count) =>
      Varint.putSigned(buffer, at - before)
      Varint.putSigned(buffer, count.number)
      before = at
    }
    java.util.Arrays.copyOf(buffer.array, buffer.position())
  }
}

object EndCounts {

  /** The largest number of intervals of `bars`. */
  val Bars = 60

  private val Most = 4 * Bars

  private final class Count(var number: Long = 0L) extends Serializable

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
      ends.counts.update(at, new Count(Varint.getSigned(buffer)))
    }
    ends
  }
}
