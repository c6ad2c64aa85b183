package org.apache.spark.sql.mullion.state.btree

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.record.RecordBytes
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

/** A few records, in order of three numbers. Their bytes are in one array, in order of insertion:
  *
  * {{{
  *   a b c    7 0 0   7 0 1   9 0 0             see [[SortPrefix]]
  *   starts     0       96      48
  *   bytes    [k v][k v][   ][k v]              the gap belonged to a record that was removed or has grown
  * }}}
  *
  * Records therefore are not objects and cost the garbage collector nothing. A value of unchanged length is overwritten
  * in place. The lengths of key and value precede their bytes. A key that follows from its numbers has no bytes. A
  * value of more than a kilobyte has its own array, so that it is not copied with its neighbours.
  *
  * @param since
  *   its creation, see [[VersionedBTree]]
  * @param keyCodec
  *   derives keys from their numbers, where keys have no bytes
  * @param firstA
  *   with the next two: numbers at or before those of all records
  */
private[state] final class Leaf private (
    val since: Long,
    val firstA: Long,
    val firstB: Long,
    val firstC: Long,
    val hasPlaces: Boolean,
    private val keyCodec: Option[ImplicitKeys]
) {
  import Leaf._
  import RecordBytes.{offset, Header}

  var size = 0
  val a = new SortPrefix
  val b = new SortPrefix
  val c = new SortPrefix
  private var places = Array.emptyLongArray
  // Whether a record may be unwritten.
  var isDirty = false
  private var starts = Array.emptyIntArray
  private var bytes = Array.emptyByteArray
  // Values that are not in `bytes`; empty until there is one.
  private var outside = noneOutside
  private var end = 0
  private var gaps = 0
  // The memory of those values.
  private var outsideBytes = 0L
  private val hasKeys = keyCodec.isEmpty
  private var taken = Fixed

  /** The memory in use. */
  def footprint: Long = taken

  /** Fails if the counters are wrong. */
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

  /** The place where a record is written. */
  def place(i: Int): Place = Place.of(places(i))

  def place(i: Int, at: Place): Unit = {
    places(i) = at.number
    isDirty |= at.isToWrite
  }

  /** Records the place of a written record that may also be part of versions. */
  def written(i: Int, at: Place): Unit = places(i) = at.number

  def startsBefore(x: Long, y: Long, z: Long): Boolean =
    firstA < x || (firstA == x && (firstB < y || (firstB == y && firstC < z)))

  def isAt(i: Int, x: Long, y: Long, z: Long): Boolean = a(i) == x && b(i) == y && c(i) == z

  /** True if a record has this key, whose numbers are equal. */
  def isOf(i: Int, key: UnsafeRow): Boolean =
    !hasKeys || (keyLength(i) == key.getSizeInBytes && ByteArrayMethods.arrayEquals(
      key.getBaseObject,
      key.getBaseOffset,
      bytes,
      offset(starts(i) + Header),
      key.getSizeInBytes.toLong
    ))

  /** Points a row to a record's key.
    *
    * @param room
    *   the buffer for a key that is derived from its numbers, see [[ImplicitKeys.room]]
    */
  def keyTo(i: Int, row: UnsafeRow, room: Array[Byte]): Unit =
    if (hasKeys) row.pointTo(bytes, offset(starts(i) + Header), keyLength(i))
    else keyCodec.get.write(a(i), b(i), c(i), row, room)

  /** Points a row to a record's value. */
  def valueTo(i: Int, row: UnsafeRow): Unit = {
    val length = Platform.getInt(bytes, offset(starts(i) + 4))
    if (length == Outside) row.pointTo(outside(i), outside(i).length)
    else row.pointTo(bytes, offset(valueAt(i)), length)
  }

  /** Reads a word of each record in `[from, until)` and returns their sum, so that cache misses overlap. */
  def touch(from: Int, until: Int): Long = {
    var all = 0L
    var i = from
    while (i < until) {
      all += Platform.getLong(bytes, offset(starts(i)))
      i += 1
    }
    all
  }

  /** The number of bytes of its key and its value. */
  def lengthOf(i: Int): Int = {
    val length = Platform.getInt(bytes, offset(starts(i) + 4))
    val ofKey = if (hasKeys) keyLength(i) else keyCodec.get.length
    ofKey + (if (length == Outside) outside(i).length else length)
  }

  // The number of bytes of its key in `bytes`.
  private def keyLength(i: Int): Int = Platform.getInt(bytes, offset(starts(i)))

  private def valueAt(i: Int): Int = starts(i) + Header + keyLength(i)

  // The number of bytes of its value in `bytes`.
  private def lengthInside(i: Int): Int = insideAt(bytes, starts(i))

  // The number of bytes of its record in `bytes`.
  private def recordLength(i: Int): Int = lengthAt(bytes, starts(i))

  /** The first record that is not before these numbers. */
  def lowerBound(x: Long, y: Long, z: Long): Int = between(0, size, x, y, z)

  /** The same, searched from a nearby record in doubling steps. */
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

  // The number of bytes of a record.
  private def room(key: UnsafeRow, value: UnsafeRow): Int =
    Header + (if (hasKeys) key.getSizeInBytes else 0) + inside(value)

  /** True if another record must go to another leaf. */
  def isFull(key: UnsafeRow, value: UnsafeRow): Boolean =
    size == Capacity || (size > 1 && end - gaps + room(key, value) > FullBytes)

  /** True if merging with another leaf would leave half of the room free, and both have the same layout. */
  def takes(next: Leaf): Boolean =
    size + next.size <= Capacity / 2 && end - gaps + next.end - next.gaps <= FullBytes / 2 && hasKeys == next.hasKeys

  def insertAt(i: Int, x: Long, y: Long, z: Long, key: UnsafeRow, value: UnsafeRow): Unit = {
    if (size == starts.length) resize(Math.min(Capacity, size * 2))
    val start = extend(room(key, value), records = 1)
    move(i, i + 1)
    if (outside.length > 0) outside(i) = None.orNull
    val slots = starts.length
    // Not short-circuited: all three must be inserted.
    if (a.insert(i, x, size, slots) | b.insert(i, y, size, slots) | c.insert(i, z, size, slots)) measure()
    starts(i) = start
    size += 1
    Platform.putInt(bytes, offset(start), if (hasKeys) key.getSizeInBytes else 0)
    if (hasKeys) RecordBytes.copy(key, bytes, start + Header)
    putValue(i, value)
  }

  def setValue(i: Int, value: UnsafeRow): Unit = {
    val oldLength = lengthInside(i)
    val newLength = inside(value)
    if (newLength <= oldLength) gaps += oldLength - newLength
    else {
      val keyAndHeader = Header + keyLength(i)
      val start = extend(keyAndHeader + newLength, records = 0)
      System.arraycopy(bytes, starts(i), bytes, start, keyAndHeader)
      gaps += keyAndHeader + oldLength
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

  /** Removes the records in `[from, until)`. */
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

  /** Moves the records from `i` on into a new leaf. */
  def split(i: Int, since: Long): Leaf = {
    val right = Leaf(since, a(i), b(i), c(i), Capacity, hasPlaces, keyCodec)
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
    val copied = new Leaf(since, firstA, firstB, firstC, hasPlaces, keyCodec)
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

  /** Reserves space for more bytes and records. Returns its start. */
  private def extend(length: Int, records: Int): Int = {
    if (length > bytes.length - end) rewrite(this, length, records)
    val start = end
    end += length
    start
  }

  /** Copies the records of a leaf without gaps, with room for `more` bytes of `records` records. It adds as much room
    * again, limited for large records. If only gaps must be closed, it works in place: arrays that survive a batch are
    * in the old generation, where garbage is expensive.
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

  // A leaf of more bytes has one record.
  private final val FullBytes = 1 << 18

  // The limit of the room that is added in advance.
  private final val MostSpare = 32 * 1024

  // The fixed memory of a leaf and its entry in the list.
  private final val Fixed = 248L

  // The collector allocates larger arrays in their own regions.
  private final val Large = 512 * 1024
  private final val Region = 1L << 20

  /** The memory of an array of this length. */
  def sizeOf(length: Int): Long = {
    val size = 16L + ((length + 7L) & ~7L)
    if (size < Large) size else (size + Region - 1) / Region * Region
  }

  // A longer value has its own array.
  private final val MostInside = 1024

  // Replaces the length of a value with its own array.
  private final val Outside = -1

  // Smaller arrays are compacted in place.
  private final val MostAside = 1 << 18

  // The buffer for compaction.
  private val aside = ThreadLocal.withInitial[Array[Byte]](() => new Array[Byte](MostAside))

  private val noneOutside = Array.empty[Array[Byte]]

  /** A leaf with initial room for this number of records. */
  def apply(
      since: Long,
      firstA: Long,
      firstB: Long,
      firstC: Long,
      room: Int,
      hasPlaces: Boolean,
      keyCodec: Option[ImplicitKeys]
  ): Leaf = {
    val leaf = new Leaf(since, firstA, firstB, firstC, hasPlaces, keyCodec)
    leaf.resize(room)
    leaf
  }

  /** The number of bytes of the record at a position. */
  private def lengthAt(bytes: Array[Byte], start: Int): Int =
    RecordBytes.Header + Platform.getInt(bytes, RecordBytes.offset(start)) + insideAt(bytes, start)

  /** The number of bytes of its value. */
  private def insideAt(bytes: Array[Byte], start: Int): Int =
    Math.max(0, Platform.getInt(bytes, RecordBytes.offset(start + 4)))

  private def isLarge(value: UnsafeRow): Boolean = value.getSizeInBytes > MostInside

  private def inside(value: UnsafeRow): Int = if (isLarge(value)) 0 else value.getSizeInBytes

}
