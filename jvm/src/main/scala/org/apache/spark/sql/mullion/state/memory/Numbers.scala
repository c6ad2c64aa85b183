package org.apache.spark.sql.mullion.state.memory

import java.util.Arrays

/** One of the three numbers of each of a leaf's records. Often it is the same for all of them: the time of one window,
  * or what tells a null from zero. Then it is there once:
  *
  * {{{
  *   a   12:00                       one
  *   b   -91  -17  3  8  44          each
  *   c   0                           one
  * }}}
  *
  * How many there are is the leaf's to know.
  */
private[memory] final class Numbers {
  private var one = 0L
  // None while all are the same.
  private var each = Array.emptyLongArray

  def apply(i: Int): Long = if (each.length == 0) one else each(i)

  /** What it takes in memory beside the object. */
  def footprint: Long = if (each.length == 0) 0L else Leaf.sizeOf(8 * each.length)

  /** Puts a number among so many; whether each stands for itself only since.
    *
    * @param room
    *   for how many there is to be room then
    */
  def insert(i: Int, number: Long, size: Int, room: Int): Boolean =
    if (each.length == 0) {
      if (size == 0) one = number
      val differs = number != one
      if (differs) {
        each = new Array[Long](room)
        Arrays.fill(each, 0, i, one)
        each(i) = number
        Arrays.fill(each, i + 1, size + 1, one)
      }
      differs
    } else {
      System.arraycopy(each, i, each, i + 1, size - i)
      each(i) = number
      false
    }

  /** Removes those from one on and before another. */
  def remove(from: Int, until: Int, size: Int): Unit =
    if (each.length > 0) System.arraycopy(each, until, each, from, size - until)

  /** Becomes a copy of others, the first `size`. */
  def set(from: Numbers, size: Int, room: Int): Unit =
    if (from.isOne(0, size)) {
      one = from(0)
      each = Array.emptyLongArray
    } else if ((from ne this) || each.length != room) each = Arrays.copyOf(from.each, room)

  /** Puts `count` others behind so many. */
  def append(from: Numbers, at: Int, count: Int, size: Int, room: Int): Unit = if (count > 0) {
    val same = from.isOne(at, at + count)
    if (size == 0 && same) {
      one = from(at)
      each = Array.emptyLongArray
    } else if (!same || each.length > 0 || from(at) != one) {
      if (each.length == 0) {
        each = new Array[Long](room)
        Arrays.fill(each, 0, size, one)
      }
      if (same) Arrays.fill(each, size, size + count, from(at))
      else System.arraycopy(from.each, at, each, size, count)
    }
  }

  private def isOne(from: Int, until: Int): Boolean = each.length == 0 || {
    var i = from + 1
    while (i < until && each(i) == each(from)) i += 1
    i >= until
  }
}
