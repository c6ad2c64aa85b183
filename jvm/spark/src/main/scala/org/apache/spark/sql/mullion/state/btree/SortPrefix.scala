package org.apache.spark.sql.mullion.state.btree

import java.util.Arrays

/** One of the three numbers of each record of a leaf. Often it is the same for all of them, such as the time of a
  * window, or the flag for nulls. Then it is stored once:
  *
  * {{{
  *   a   12:00                       one
  *   b   -91  -17  3  8  44          each
  *   c   0                           one
  * }}}
  *
  * The leaf tracks the number of records.
  */
private[btree] final class SortPrefix {
  private var one = 0L
  // Empty while all are the same.
  private var each = Array.emptyLongArray

  def apply(i: Int): Long = if (each.length == 0) one else each(i)

  /** The memory in addition to the object. */
  def footprint: Long = if (each.length == 0) 0L else Leaf.sizeOf(8 * each.length)

  /** Inserts a number among `size`. Returns whether they became different with it.
    *
    * @param room
    *   the capacity in that case
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

  /** Removes the numbers in `[from, until)`. */
  def remove(from: Int, until: Int, size: Int): Unit =
    if (each.length > 0) System.arraycopy(each, until, each, from, size - until)

  /** Copies the first `size` of others. */
  def set(from: SortPrefix, size: Int, room: Int): Unit =
    if (from.isOne(0, size)) {
      one = from(0)
      each = Array.emptyLongArray
    } else if ((from ne this) || each.length != room) each = Arrays.copyOf(from.each, room)

  /** Appends `count` others after `size`. */
  def append(from: SortPrefix, at: Int, count: Int, size: Int, room: Int): Unit = if (count > 0) {
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
