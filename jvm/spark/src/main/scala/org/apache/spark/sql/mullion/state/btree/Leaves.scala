package org.apache.spark.sql.mullion.state.btree

import java.util.Arrays

/** The leaves in order of their records, and immutable versions of the list: a change copies it first.
  *
  * The first two start numbers of each leaf are stored in the list itself, so that a search touches few cache lines.
  */
private[state] final class Leaves(from: Leaves.Version) {
  private var leaves = from.leaves
  private var firstA = from.firstA
  private var firstB = from.firstB
  private var isMine = false

  var count: Int = from.leaves.length

  def apply(i: Int): Leaf = leaves(i)

  /** The leaves, in the first `count` elements, valid until the next change. */
  def array: Array[Leaf] = leaves

  /** The current version of the list. */
  def version(): Leaves.Version = {
    if (leaves.length != count) resize(count)
    isMine = false
    new Leaves.Version(leaves, firstA, firstB)
  }

  /** True if leaf `i` exists and starts before these numbers. */
  def startsBefore(i: Int, a: Long, b: Long, c: Long): Boolean =
    i < count && Leaves.startsBefore(leaves, firstA, firstB, i, a, b, c)

  /** The last leaf that starts before these numbers, or the first. */
  def find(a: Long, b: Long, c: Long): Int = Leaves.find(leaves, firstA, firstB, count, a, b, c)

  /** Replaces a leaf by one with the same first numbers. */
  def replace(i: Int, leaf: Leaf): Unit = {
    own()
    leaves(i) = leaf
  }

  def insert(i: Int, leaf: Leaf): Unit = {
    own()
    if (count == leaves.length) resize(count + (count >> 1) + 8)
    move(i, i + 1)
    leaves(i) = leaf
    firstA(i) = leaf.firstA
    firstB(i) = leaf.firstB
    count += 1
  }

  def drop(i: Int): Unit = {
    own()
    move(i + 1, i)
    count -= 1
    leaves(count) = None.orNull
  }

  private def own(): Unit = if (!isMine) {
    resize(count + 8)
    isMine = true
  }

  private def resize(room: Int): Unit = {
    leaves = Arrays.copyOf(leaves, room)
    firstA = Arrays.copyOf(firstA, room)
    firstB = Arrays.copyOf(firstB, room)
  }

  private def move(from: Int, to: Int): Unit = {
    val n = count - from
    System.arraycopy(leaves, from, leaves, to, n)
    System.arraycopy(firstA, from, firstA, to, n)
    System.arraycopy(firstB, from, firstB, to, n)
  }
}

private[state] object Leaves {

  /** An immutable version. */
  final class Version private[Leaves] (
      val leaves: Array[Leaf],
      private[Leaves] val firstA: Array[Long],
      private[Leaves] val firstB: Array[Long]
  ) {
    def find(a: Long, b: Long, c: Long): Int = Leaves.find(leaves, firstA, firstB, leaves.length, a, b, c)

    /** The memory of the list, without the leaves. */
    def footprint: Long = 24L * leaves.length
  }

  val empty: Version = new Version(Array.empty, Array.emptyLongArray, Array.emptyLongArray)

  private def find(
      leaves: Array[Leaf],
      firstA: Array[Long],
      firstB: Array[Long],
      count: Int,
      a: Long,
      b: Long,
      c: Long
  ): Int = {
    var low = 1
    var high = count
    while (low < high) {
      val middle = (low + high) >>> 1
      if (startsBefore(leaves, firstA, firstB, middle, a, b, c)) low = middle + 1 else high = middle
    }
    low - 1
  }

  private def startsBefore(
      leaves: Array[Leaf],
      firstA: Array[Long],
      firstB: Array[Long],
      i: Int,
      a: Long,
      b: Long,
      c: Long
  ): Boolean =
    firstA(i) < a ||
      (firstA(i) == a && (firstB(i) < b || (firstB(i) == b && leaves(i).startsBefore(a, b, c))))
}
