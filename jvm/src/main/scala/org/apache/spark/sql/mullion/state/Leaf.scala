package org.apache.spark.sql.mullion.state

import java.util.Arrays

/** A few records, in order.
  *
  * @param firstA
  *   with the next two: numbers that none of the leaf's come before
  */
private[state] final class Leaf private (
    val owner: Object,
    val firstA: Long,
    val firstB: Long,
    firstC: Long,
    val hasPlaces: Boolean
) {
  import SortedRecords.{Changed, Unwritten}

  var size = 0
  var a = Array.emptyLongArray
  var b = Array.emptyLongArray
  var c = Array.emptyLongArray
  var keys = Leaf.none
  var values = Leaf.none
  var places = Array.emptyLongArray
  // Whether a record may be unwritten.
  var isDirty = false

  def place(i: Int, at: Long): Unit = {
    places(i) = at
    isDirty |= at == Unwritten || at == Changed
  }

  def startsBefore(x: Long, y: Long, z: Long): Boolean =
    firstA < x || (firstA == x && (firstB < y || (firstB == y && firstC < z)))

  def isAt(i: Int, x: Long, y: Long, z: Long): Boolean = a(i) == x && b(i) == y && c(i) == z

  /** The first record that does not come before these numbers. */
  def lowerBound(x: Long, y: Long, z: Long): Int = between(0, size, x, y, z)

  /** The same, looked for from a record on that may be near: in steps that double. */
  def lowerBound(x: Long, y: Long, z: Long, near: Int): Int =
    if (near >= size) lowerBound(x, y, z)
    else if (!isBefore(near, x, y, z)) if (near > 0) between(0, near, x, y, z) else 0
    else {
      var low = near + 1
      var step = 1
      while (low + step <= size && isBefore(low + step - 1, x, y, z)) {
        low += step
        step <<= 1
      }
      between(low, Math.min(size, low + step - 1), x, y, z)
    }

  private def isBefore(i: Int, x: Long, y: Long, z: Long): Boolean = {
    val at = a(i)
    at < x || (at == x && (b(i) < y || (b(i) == y && c(i) < z)))
  }

  private def between(from: Int, until: Int, x: Long, y: Long, z: Long): Int = {
    var low = from
    var high = until
    while (low < high) {
      val middle = (low + high) >>> 1
      if (isBefore(middle, x, y, z)) low = middle + 1 else high = middle
    }
    low
  }

  def insertAt(i: Int, x: Long, y: Long, z: Long, key: Array[Byte], value: Array[Byte]): Unit = {
    if (size == a.length) resize(Math.min(Leaf.Capacity, size * 2))
    move(i, i + 1)
    a(i) = x
    b(i) = y
    c(i) = z
    keys(i) = key
    values(i) = value
    size += 1
  }

  def removeAt(i: Int): Unit = {
    move(i + 1, i)
    size -= 1
    forget(size, size + 1)
  }

  /** Takes the records from `i` on out, into a leaf of their own. */
  def split(i: Int, owner: Object): Leaf = {
    val right = Leaf(owner, a(i), b(i), c(i), Leaf.Capacity, hasPlaces)
    right.take(this, i, size)
    forget(i, size)
    size = i
    right
  }

  def addAll(next: Leaf): Unit = {
    if (size + next.size > a.length) resize(Leaf.Capacity)
    take(next, 0, next.size)
  }

  def copy(owner: Object): Leaf = {
    val copied = new Leaf(owner, firstA, firstB, firstC, hasPlaces)
    copied.size = size
    copied.isDirty = isDirty
    copied.resize(this, Math.min(Leaf.Capacity, size + (size >> 2) + 4))
    copied
  }

  private def take(other: Leaf, from: Int, until: Int): Unit = {
    val n = until - from
    System.arraycopy(other.a, from, a, size, n)
    System.arraycopy(other.b, from, b, size, n)
    System.arraycopy(other.c, from, c, size, n)
    System.arraycopy(other.keys, from, keys, size, n)
    System.arraycopy(other.values, from, values, size, n)
    if (hasPlaces) {
      System.arraycopy(other.places, from, places, size, n)
      isDirty |= other.isDirty
    }
    size += n
  }

  private def move(from: Int, to: Int): Unit = {
    val n = size - from
    System.arraycopy(a, from, a, to, n)
    System.arraycopy(b, from, b, to, n)
    System.arraycopy(c, from, c, to, n)
    System.arraycopy(keys, from, keys, to, n)
    System.arraycopy(values, from, values, to, n)
    if (hasPlaces) System.arraycopy(places, from, places, to, n)
  }

  private def forget(from: Int, until: Int): Unit = {
    Arrays.fill(keys.asInstanceOf[Array[AnyRef]], from, until, None.orNull)
    Arrays.fill(values.asInstanceOf[Array[AnyRef]], from, until, None.orNull)
  }

  private def resize(room: Int): Unit = resize(this, room)

  private def resize(from: Leaf, room: Int): Unit = {
    a = Arrays.copyOf(from.a, room)
    b = Arrays.copyOf(from.b, room)
    c = Arrays.copyOf(from.c, room)
    keys = Arrays.copyOf(from.keys, room)
    values = Arrays.copyOf(from.values, room)
    if (hasPlaces) places = Arrays.copyOf(from.places, room)
  }
}

private[state] object Leaf {
  val Capacity = 128

  private val none = Array.empty[Array[Byte]]

  /** One with room for so many records at first. */
  def apply(owner: Object, firstA: Long, firstB: Long, firstC: Long, room: Int, hasPlaces: Boolean): Leaf = {
    val leaf = new Leaf(owner, firstA, firstB, firstC, hasPlaces)
    leaf.resize(room)
    leaf
  }
}
