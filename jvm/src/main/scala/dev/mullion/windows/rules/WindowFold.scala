package dev.mullion.windows.rules

/** The sums of many overlapping windows from their shared slices, each slice combined a constant number of times
  * however many windows hold it (the "two stacks" of a queue with sums).
  *
  * Slices are pushed and windows asked for in order of time. What has been pushed stands as
  *
  * {{{
  *   front: sums of suffixes      back: one running sum
  *   [a b c d] -> a+b+c+d, b+c+d, c+d, d  |  e+f+g
  * }}}
  *
  * A window that starts at `b` is `(b+c+d) + (e+f+g)`: one combination. When the front is used up, the back is turned
  * into a new front.
  *
  * Slices that all windows still to be asked for hold are [[keep]]t, in one sum that they are added to in place.
  *
  * @param combine
  *   the sum of two accumulators, older first; it must leave both as they were
  * @param add
  *   the same, of a sum that `combine` or `own` made: it may be changed
  * @param own
  *   a copy of an accumulator that was lent
  * @tparam A
  *   an accumulator
  */
final class WindowFold[A <: AnyRef](combine: (A, A) => A, add: (A, A) => A, own: A => A) {
  private val front = new java.util.ArrayDeque[WindowFold.Entry[A]]()
  private val back = new java.util.ArrayList[WindowFold.Entry[A]]()
  // While the back has one slice that slice is its sum.
  private var backSum: Option[A] = None
  // Newer than all else.
  private var kept: Option[A] = None

  /** Adds the next slice, which is lent for the call. */
  def push(ordinal: Long, lent: A): Unit = {
    val value = own(lent)
    backSum = backSum match {
      case None      => Some(value)
      case Some(sum) =>
        val next = if (back.size == 1) combine(sum, value) else add(sum, value)
        if (next eq sum) backSum else Some(next)
    }
    back.add(new WindowFold.Entry(ordinal, value))
  }

  /** Adds the next slice, which is lent for the call and never forgotten, nor is any that comes after it. */
  def keep(lent: A): Unit = kept match {
    case None      => kept = Some(own(lent))
    case Some(sum) =>
      val next = add(sum, lent)
      if (next ne sum) kept = Some(next)
  }

  /** Forgets the slices before `ordinal`. */
  def evictBefore(ordinal: Long): Unit = {
    dropFront(ordinal)
    if (front.isEmpty && !back.isEmpty && back.get(0).ordinal < ordinal) {
      turnBack(ordinal)
    }
  }

  /** The sum of all slices held, in order of time. The next slice may change it. */
  def sum: Option[A] = if (kept.isEmpty) pushed else pushed.fold(kept)(older => kept.map(combine(older, _)))

  private def pushed: Option[A] =
    if (front.isEmpty) backSum
    else Some(backSum.fold(front.peekFirst.value)(combine(front.peekFirst.value, _)))

  private def dropFront(ordinal: Long): Unit =
    while (!front.isEmpty && front.peekFirst.ordinal < ordinal) front.removeFirst()

  private def turnBack(ordinal: Long): Unit = {
    var i = back.size - 1
    while (i >= 0 && back.get(i).ordinal >= ordinal) {
      val entry = back.get(i)
      val value = if (front.isEmpty) entry.value else combine(entry.value, front.peekFirst.value)
      front.addFirst(new WindowFold.Entry(entry.ordinal, value))
      i -= 1
    }
    back.clear()
    backSum = None
  }
}

object WindowFold {
  private final class Entry[A](val ordinal: Long, val value: A)
}
