package org.apache.spark.sql.mullion.state.memory

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.records.RecordBytes
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

/** A few records, in order of three numbers. Their bytes lie in one array, in whatever order they came:
  *
  * {{{
  *   a b c    7 0 0   7 0 1   9 0 0             see [[Numbers]]
  *   starts     0       96      48
  *   bytes    [k v][k v][   ][k v]              the gap is of a record that is gone, or has grown
  * }}}
  *
  * So a record is no object, a value of the length it had is written over where it lies, and nothing of it is the
  * collector's. Before the bytes of its key and its value stand how many they are. A key that its numbers tell has no
  * bytes. A value of more than a kilobyte has an array of its own, and is not copied for its neighbours' sake.
  *
  * @param since
  *   when it was made, see [[SortedRecords]]
  * @param told
  *   how keys are made from their numbers, where they have no bytes
  * @param firstA
  *   with the next two: numbers that none of the leaf's come before
  */
private[state] final class Leaf private (
    val since: Long,
    val firstA: Long,
    val firstB: Long,
    val firstC: Long,
    val hasPlaces: Boolean,
    private val told: Option[ToldKeys]
) {
  import Leaf._
  import RecordBytes.{offset, Header}

  var size = 0
  val a = new Numbers
  val b = new Numbers
  val c = new Numbers
  private var places = Array.emptyLongArray
  // Whether a record may be unwritten.
  var isDirty = false
  private var starts = Array.emptyIntArray
  private var bytes = Array.emptyByteArray
  // Values that are not in `bytes`; none there unless one has been.
  private var outside = noneOutside
  private var end = 0
  private var gaps = 0
  // What those outside take.
  private var outsideBytes = 0L
  private val hasKeys = told.isEmpty
  private var taken = Fixed

  /** What it takes in memory. */
  def footprint: Long = taken

  /** Fails if what is counted is not what there is. */
  private[state] def checkInvariants(): Unit = {
    def require(holds: Boolean, what: => String): Unit = if (!holds) throw new IllegalStateException(what)
    val spans = (0 until size).map(i => (starts(i), starts(i) + recordLength(i))).sorted
    require(spans.forall(_._2 <= end) && end <= bytes.length, "a record beyond the bytes")
    require(spans.zip(spans.drop(1)).forall { case (one, next) => one._2 <= next._1 }, "records lie over each other")
    require(end - spans.map(span => span._2 - span._1).sum == gaps, s"$gaps bytes of gaps")
    val lying = outside.filter(_ ne null)
    require(lying.length == (0 until size).count(isOutside), "a value that is nobody's")
    require(lying.map(value => sizeOf(value.length)).sum == outsideBytes, s"$outsideBytes bytes outside")
    val counted = taken
    measure()
    require(taken == counted, s"$counted bytes in all, not $taken")
  }

  /** True if it starts after these numbers. */
  private[state] def comesAfter(x: Long, y: Long, z: Long): Boolean =
    !startsBefore(x, y, z) && !(firstA == x && firstB == y && firstC == z)

  private def isOutside(i: Int): Boolean = Platform.getInt(bytes, offset(starts(i) + 4)) == Outside

  private def measure(): Unit = {
    taken = Fixed + a.footprint + b.footprint + c.footprint + sizeOf(8 * places.length) + sizeOf(4 * starts.length) +
      sizeOf(bytes.length) +
      (if (outside.length > 0) sizeOf(8 * outside.length) + outsideBytes else 0L)
  }

  /** Where a record is written. */
  def place(i: Int): Place = Place.of(places(i))

  def place(i: Int, at: Place): Unit = {
    places(i) = at.number
    isDirty |= at.isToWrite
  }

  /** Says where a record has been written that is part of versions, too. */
  def written(i: Int, at: Place): Unit = places(i) = at.number

  def startsBefore(x: Long, y: Long, z: Long): Boolean =
    firstA < x || (firstA == x && (firstB < y || (firstB == y && firstC < z)))

  def isAt(i: Int, x: Long, y: Long, z: Long): Boolean = a(i) == x && b(i) == y && c(i) == z

  /** True if a record has this key, which has its numbers. */
  def isOf(i: Int, key: UnsafeRow): Boolean =
    !hasKeys || (keyLength(i) == key.getSizeInBytes && ByteArrayMethods.arrayEquals(
      key.getBaseObject,
      key.getBaseOffset,
      bytes,
      offset(starts(i) + Header),
      key.getSizeInBytes.toLong
    ))

  /** Has a row stand on a record's key.
    *
    * @param room
    *   where a key is written that its numbers tell, see [[ToldKeys.room]]
    */
  def keyTo(i: Int, row: UnsafeRow, room: Array[Byte]): Unit =
    if (hasKeys) row.pointTo(bytes, offset(starts(i) + Header), keyLength(i))
    else told.get.write(a(i), b(i), c(i), row, room)

  /** Has a row stand on a record's value. */
  def valueTo(i: Int, row: UnsafeRow): Unit = {
    val length = Platform.getInt(bytes, offset(starts(i) + 4))
    if (length == Outside) row.pointTo(outside(i), outside(i).length)
    else row.pointTo(bytes, offset(valueAt(i)), length)
  }

  /** Reads a word of each record from one to before another; what they add up to. The processor waits for these places
    * together, and not for each alone once it is come to.
    */
  def touch(from: Int, until: Int): Long = {
    var all = 0L
    var i = from
    while (i < until) {
      all += Platform.getLong(bytes, offset(starts(i)))
      i += 1
    }
    all
  }

  /** How many bytes its key and its value are. */
  def lengthOf(i: Int): Int = {
    val length = Platform.getInt(bytes, offset(starts(i) + 4))
    val ofKey = if (hasKeys) keyLength(i) else told.get.length
    ofKey + (if (length == Outside) outside(i).length else length)
  }

  // How many bytes of its key are in `bytes`.
  private def keyLength(i: Int): Int = Platform.getInt(bytes, offset(starts(i)))

  private def valueAt(i: Int): Int = starts(i) + Header + keyLength(i)

  // How many bytes of its value are in `bytes`.
  private def lengthInside(i: Int): Int = insideAt(bytes, starts(i))

  // How many bytes it takes in `bytes`.
  private def recordLength(i: Int): Int = lengthAt(bytes, starts(i))

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

  // How many bytes a record takes.
  private def room(key: UnsafeRow, value: UnsafeRow): Int =
    Header + (if (hasKeys) key.getSizeInBytes else 0) + inside(value)

  /** True if another record is to go elsewhere. */
  def isFull(key: UnsafeRow, value: UnsafeRow): Boolean =
    size == Capacity || (size > 1 && end - gaps + room(key, value) > FullBytes)

  /** True if there would be half of the room left with another leaf's records, and they lie alike. */
  def takes(next: Leaf): Boolean =
    size + next.size <= Capacity / 2 && end - gaps + next.end - next.gaps <= FullBytes / 2 && hasKeys == next.hasKeys

  def insertAt(i: Int, x: Long, y: Long, z: Long, key: UnsafeRow, value: UnsafeRow): Unit = {
    if (size == starts.length) resize(Math.min(Capacity, size * 2))
    val start = extend(room(key, value), records = 1)
    move(i, i + 1)
    if (outside.length > 0) outside(i) = None.orNull
    val slots = starts.length
    // All three are put in, whatever the first says.
    if (a.insert(i, x, size, slots) | b.insert(i, y, size, slots) | c.insert(i, z, size, slots)) measure()
    starts(i) = start
    size += 1
    Platform.putInt(bytes, offset(start), if (hasKeys) key.getSizeInBytes else 0)
    if (hasKeys) RecordBytes.copy(key, bytes, start + Header)
    putValue(i, value)
  }

  /** Gives a record another value. */
  def setValue(i: Int, value: UnsafeRow): Unit = {
    val was = lengthInside(i)
    val is = inside(value)
    if (is <= was) gaps += was - is
    else {
      val keyAndHeader = Header + keyLength(i)
      val start = extend(keyAndHeader + is, records = 0)
      System.arraycopy(bytes, starts(i), bytes, start, keyAndHeader)
      gaps += keyAndHeader + was
      starts(i) = start
    }
    putValue(i, value)
  }

  private def putValue(i: Int, value: UnsafeRow): Unit =
    if (isLarge(value)) {
      if (outside.length < starts.length) outside = Arrays.copyOf(outside, starts.length)
      dropOutside(i)
      outside(i) = RecordBytes.of(value)
      outsideBytes += sizeOf(outside(i).length)
      measure()
      Platform.putInt(bytes, offset(starts(i) + 4), Outside)
    } else {
      dropOutside(i)
      Platform.putInt(bytes, offset(starts(i) + 4), value.getSizeInBytes)
      RecordBytes.copy(value, bytes, valueAt(i))
    }

  private def dropOutside(i: Int): Unit = if (outside.length > 0 && (outside(i) ne null)) {
    outsideBytes -= sizeOf(outside(i).length)
    outside(i) = None.orNull
    measure()
  }

  /** Removes the records from one on and before another. */
  def remove(from: Int, until: Int): Unit = {
    var i = from
    while (i < until) {
      gaps += recordLength(i)
      dropOutside(i)
      i += 1
    }
    a.remove(from, until, size)
    b.remove(from, until, size)
    c.remove(from, until, size)
    move(until, from)
    val had = size
    size -= until - from
    if (outside.length > 0) Arrays.fill(outside.asInstanceOf[Array[AnyRef]], size, had, None.orNull)
  }

  /** Takes the records from `i` on out, into a leaf of their own. */
  def split(i: Int, since: Long): Leaf = {
    val right = Leaf(since, a(i), b(i), c(i), Capacity, hasPlaces, told)
    right.take(this, i, size)
    gaps += right.end
    if (outside.length > 0) Arrays.fill(outside.asInstanceOf[Array[AnyRef]], i, size, None.orNull)
    outsideBytes -= right.outsideBytes
    size = i
    resizeNumbers(this, starts.length)
    measure()
    right
  }

  def addAll(next: Leaf): Unit = {
    if (size + next.size > starts.length) resize(Capacity)
    take(next, 0, next.size)
  }

  def copy(since: Long): Leaf = {
    val copied = new Leaf(since, firstA, firstB, firstC, hasPlaces, told)
    copied.size = size
    copied.isDirty = isDirty
    copied.outsideBytes = outsideBytes
    copied.resize(this, Math.min(Capacity, size + (size >> 2) + 4))
    if (gaps > end / 4) copied.rewrite(this, more = 0, records = 0)
    else {
      copied.bytes = bytes.clone()
      copied.end = end
      copied.gaps = gaps
      copied.measure()
    }
    copied
  }

  private def take(other: Leaf, from: Int, until: Int): Unit = {
    val n = until - from
    a.append(other.a, from, n, size, starts.length)
    b.append(other.b, from, n, size, starts.length)
    c.append(other.c, from, n, size, starts.length)
    if (hasPlaces) {
      System.arraycopy(other.places, from, places, size, n)
      isDirty |= other.isDirty
    }
    if (other.outside.length > 0) {
      if (outside.length < starts.length) outside = Arrays.copyOf(outside, starts.length)
      System.arraycopy(other.outside, from, outside, size, n)
      var i = from
      while (i < until) {
        if (other.outside(i) ne null) outsideBytes += sizeOf(other.outside(i).length)
        i += 1
      }
    }
    measure()
    var all = 0
    var i = from
    while (i < until) { all += other.recordLength(i); i += 1 }
    var start = extend(all, n)
    i = from
    while (i < until) {
      val length = other.recordLength(i)
      System.arraycopy(other.bytes, other.starts(i), bytes, start, length)
      starts(size + i - from) = start
      start += length
      i += 1
    }
    size += n
  }

  private def move(from: Int, to: Int): Unit = {
    val n = size - from
    System.arraycopy(starts, from, starts, to, n)
    if (hasPlaces) System.arraycopy(places, from, places, to, n)
    if (outside.length > 0) System.arraycopy(outside, from, outside, to, n)
  }

  private def resize(room: Int): Unit = resize(this, room)

  private def resize(from: Leaf, room: Int): Unit = {
    resizeNumbers(from, room)
    starts = Arrays.copyOf(from.starts, room)
    if (hasPlaces) places = Arrays.copyOf(from.places, room)
    if (from.outside.length > 0) outside = Arrays.copyOf(from.outside, room)
    measure()
  }

  private def resizeNumbers(from: Leaf, room: Int): Unit = {
    a.set(from.a, size, room)
    b.set(from.b, size, room)
    c.set(from.c, size, room)
  }

  /** Where there is room for so many bytes more, of so many records more. */
  private def extend(length: Int, records: Int): Int = {
    if (length > bytes.length - end) rewrite(this, length, records)
    val start = end
    end += length
    start
  }

  /** Has the records of a leaf side by side, with room for so many bytes more of so many records more, and as much
    * again as the records take for which there is room beside the bytes, but not much more where they are large. Where
    * its own have only to close the gaps, that is done in the array that they lie in: what lives through a batch is the
    * old generation's, and an array given up there is garbage until all of it is looked through.
    */
  private def rewrite(from: Leaf, more: Int, records: Int): Unit = {
    val alive = from.end - from.gaps
    val needed = Math.addExact(alive, more)
    val others = starts.length - size - records
    val forOthers = needed.toLong * others / Math.max(1, size + records)
    val spare = Math.max(Math.min(forOthers, Math.max(needed, MostSpare)), alive / 8L)
    val old = from.bytes
    val room = Math.min(needed + spare, Int.MaxValue - 16L).toInt
    val fits = needed + alive / 8L <= old.length && old.length / 2 <= room && from.end <= MostAside
    if (from.gaps == 0) bytes = Arrays.copyOf(old, room)
    else if (fits && (from eq this)) {
      val aside = Leaf.aside.get
      System.arraycopy(old, 0, aside, 0, end)
      closeGaps(aside, old)
    } else closeGaps(old, new Array[Byte](room))
    end = alive
    gaps = 0
    measure()
  }

  private def closeGaps(old: Array[Byte], closed: Array[Byte]): Unit = {
    var at = 0
    var i = 0
    while (i < size) {
      val length = lengthAt(old, starts(i))
      System.arraycopy(old, starts(i), closed, at, length)
      starts(i) = at
      at += length
      i += 1
    }
    bytes = closed
  }
}

private[state] object Leaf {
  val Capacity = 128

  // Of more bytes a leaf has one record only.
  private final val FullBytes = 1 << 18

  // Beyond what is there no more is made room for at once.
  private final val MostSpare = 32 * 1024

  // What it takes beside arrays, with its place among leaves.
  private final val Fixed = 248L

  // Arrays of more are put into regions of their own by the collector.
  private final val Large = 512 * 1024
  private final val Region = 1L << 20

  /** What an array of so many bytes takes in memory. */
  def sizeOf(length: Int): Long = {
    val size = 16L + ((length + 7L) & ~7L)
    if (size < Large) size else (size + Region - 1) / Region * Region
  }

  // A value of more bytes lies outside.
  private final val MostInside = 1024

  // What is said in place of the length of a value that lies outside.
  private final val Outside = -1

  // Of fewer bytes gaps are closed where they are.
  private final val MostAside = 1 << 18

  // Where they are set aside meanwhile.
  private val aside = ThreadLocal.withInitial[Array[Byte]](() => new Array[Byte](MostAside))

  private val noneOutside = Array.empty[Array[Byte]]

  /** One with room for so many records at first. */
  def apply(
      since: Long,
      firstA: Long,
      firstB: Long,
      firstC: Long,
      room: Int,
      hasPlaces: Boolean,
      told: Option[ToldKeys]
  ): Leaf = {
    val leaf = new Leaf(since, firstA, firstB, firstC, hasPlaces, told)
    leaf.resize(room)
    leaf
  }

  /** How many bytes the record at a place takes there. */
  private def lengthAt(bytes: Array[Byte], start: Int): Int =
    RecordBytes.Header + Platform.getInt(bytes, RecordBytes.offset(start)) + insideAt(bytes, start)

  /** How many of them are its value's. */
  private def insideAt(bytes: Array[Byte], start: Int): Int =
    Math.max(0, Platform.getInt(bytes, RecordBytes.offset(start + 4)))

  private def isLarge(value: UnsafeRow): Boolean = value.getSizeInBytes > MostInside

  private def inside(value: UnsafeRow): Int = if (isLarge(value)) 0 else value.getSizeInBytes

}
