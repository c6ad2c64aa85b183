package dev.mullion.windows.rules

import java.util.Arrays

/** The sums of many overlapping windows from their shared slices. Each slice is combined a constant number of times,
  * however many windows hold it (the "two stacks" algorithm for a queue with sums).
  *
  * Slices are pushed, and windows requested, in order of time. The stacks are
  *
  * {{{
  *   front: sums of suffixes      back: one running sum
  *   [a b c d] -> a+b+c+d, b+c+d, c+d, d  |  e+f+g
  * }}}
  *
  * A window that starts at `b` is `(b+c+d) + (e+f+g)`: one combination. When the front is empty, the back is turned
  * into a new front.
  *
  * [[keep]] adds slices that all remaining windows hold to one sum, which is updated in place.
  *
  * Accumulators that can be overwritten are reused: after the first round nothing is allocated for as many slices.
  *
  * @param copied
  *   copies an accumulator into an unused one, which is the first argument, or null if there is none
  * @param add
  *   the sum of two accumulators, older first; the older is a result of `copied` or `add`, and may be changed
  * @param sumIn
  *   the sum of two accumulators, older first, which stay unchanged: `add` to a copy in the first argument, or the same
  *   in one step
  * @tparam A
  *   an accumulator
  */
final class WindowFold[A >: Null <: AnyRef](copied: (A, A) => A, add: (A, A) => A, sumIn: (A, A, A) => A) {
  // Partitioned into the front, the back, and the unused rest.
  private var ordinals = new Array[Long](8)
  private var values = new Array[AnyRef](8)
  private var front = 0
  private var back = 0
  private var end = 0
  private var backSum: A = _
  // Newer than all else.
  private var keptSum: A = _
  private var isKept = false
  private var both: A = _

  /** Adds the next slice, which is borrowed for the call. */
  def push(ordinal: Long, lent: A): Unit = {
    if (end == values.length) makeRoom()
    ordinals(end) = ordinal
    values(end) = copied(valueAt(end), lent)
    backSum = if (end == back) copied(backSum, lent) else add(backSum, lent)
    end += 1
  }

  /** Adds the next slice, which is borrowed for the call. It is never forgotten, nor is any later slice. */
  def keep(lent: A): Unit = {
    keptSum = if (isKept) add(keptSum, lent) else copied(keptSum, lent)
    isKept = true
  }

  def keeps: Boolean = isKept

  /** Adds several slices like `keep`, after at least one call of `keep`.
    *
    * @param added
    *   the sum of its argument, which may be changed, and of these slices
    */
  def keepAll(added: A => A): Unit =
    if (isKept) keptSum = added(keptSum) else throw new NoSuchElementException("no slice is kept")

  /** Forgets the slices before `ordinal`. */
  def evictBefore(ordinal: Long): Unit = {
    while (front < back && ordinals(front) < ordinal) front += 1
    if (front == back && back < end && ordinals(back) < ordinal) turnBack(ordinal)
    if (front == end) forget()
  }

  /** Forgets all slices. */
  def clear(): Unit = {
    forget()
    isKept = false
  }

  private def forget(): Unit = {
    front = 0
    back = 0
    end = 0
  }

  def isEmpty: Boolean = front == end && !isKept

  /** The sum of all slices, in order of time; it fails if there are none. The next call may change it. */
  def sum: A =
    // The result of the previous call is still valid.
    if (isEmpty) throw new NoSuchElementException("no slice is held")
    else if (!isKept) pushed
    else if (front == end) keptSum
    else {
      val older = pushed
      both = if (older eq both) add(both, keptSum) else sumIn(both, older, keptSum)
      both
    }

  private def pushed: A =
    if (front == back) backSum
    else if (back == end) valueAt(front)
    else {
      both = sumIn(both, valueAt(front), backSum)
      both
    }

  private def valueAt(i: Int): A = values(i).asInstanceOf[A]

  private def turnBack(ordinal: Long): Unit = {
    var i = end - 1
    while (i >= back && ordinals(i) >= ordinal) {
      if (i < end - 1) values(i) = add(valueAt(i), valueAt(i + 1))
      i -= 1
    }
    front = i + 1
    back = end
  }

  /** Moves the used entries to the front of the arrays, and the unused ones after them. */
  private def makeRoom(): Unit = {
    val had = values
    val size = if (front > had.length / 2) had.length else had.length * 2
    values = new Array[AnyRef](size)
    System.arraycopy(had, front, values, 0, end - front)
    System.arraycopy(had, 0, values, end - front, front)
    ordinals = Arrays.copyOf(Arrays.copyOfRange(ordinals, front, end), size)
    back -= front
    end -= front
    front = 0
  }
}
