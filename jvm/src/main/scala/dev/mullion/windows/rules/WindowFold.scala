package dev.mullion.windows.rules

import java.util.Arrays

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
  * Where an accumulator can be written over, what it has copied once it uses again: for as many slices nothing is
  * allocated any more.
  *
  * @param copied
  *   a copy of an accumulator, which may be another one of `copied` or `add` that is needed no more, or null if there
  *   is none: it is given first
  * @param add
  *   the sum of two accumulators, older first; the older is one of `copied` or `add`, and may be changed
  * @param sumIn
  *   the sum of two accumulators, older first, which stay as they are: `add` to a copy in the one that is given first,
  *   or the same in one go
  * @tparam A
  *   an accumulator
  */
final class WindowFold[A >: Null <: AnyRef](copied: (A, A) => A, add: (A, A) => A, sumIn: (A, A, A) => A) {
  // The front, the back, and what is not used: each a part of these.
  private var ordinals = new Array[Long](8)
  private var values = new Array[AnyRef](8)
  private var front = 0
  private var back = 0
  private var end = 0
  private var backSum: A = _
  // Newer than all else.
  private var kept: A = _
  private var isKept = false
  private var both: A = _

  /** Adds the next slice, which is lent for the call. */
  def push(ordinal: Long, lent: A): Unit = {
    if (end == values.length) makeRoom()
    ordinals(end) = ordinal
    values(end) = copied(valueAt(end), lent)
    backSum = if (end == back) copied(backSum, lent) else add(backSum, lent)
    end += 1
  }

  /** Adds the next slice, which is lent for the call and never forgotten, nor is any that comes after it. */
  def keep(lent: A): Unit = {
    kept = if (isKept) add(kept, lent) else copied(kept, lent)
    isKept = true
  }

  /** Whether a slice is kept. */
  def keeps: Boolean = isKept

  /** Adds several slices as `keep` adds one, where one is kept already.
    *
    * @param added
    *   the sum of an accumulator, which may be changed, and theirs
    */
  def keepAll(added: A => A): Unit =
    if (isKept) kept = added(kept) else throw new NoSuchElementException("no slice is kept")

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

  /** Whether it holds no slice. */
  def isEmpty: Boolean = front == end && !isKept

  /** The sum of all slices held, in order of time; it fails if there are none. The next call may change it. */
  def sum: A =
    // What was summed before is still there.
    if (isEmpty) throw new NoSuchElementException("no slice is held")
    else if (!isKept) pushed
    else if (front == end) kept
    else {
      val older = pushed
      both = if (older eq both) add(both, kept) else sumIn(both, older, kept)
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

  /** Puts what is held first, and what is not used after it. */
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
