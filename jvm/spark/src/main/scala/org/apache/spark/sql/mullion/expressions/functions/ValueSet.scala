package org.apache.spark.sql.mullion.expressions.functions

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.{UnsafeRow, XXH64}
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

/** A set of rows, which are equal if their bytes are. It has a few arrays instead of objects per row, and stores itself
  * with two copies.
  *
  * {{{
  *   bytes    [row 0][row 1][row 2] ...
  *   ends     of each row in `bytes`
  *   hashes   of each row
  *   table    the numbers of the rows, at the first free place from their hash on
  * }}}
  */
class ValueSet {
  import ValueSet._

  private var bytes = new Array[Byte](FewBytes)
  private var ends = new Array[Int](Few)
  private var hashes = new Array[Long](Few)
  // The number of a row plus one; 0 for a free place.
  private var table = new Array[Int](2 * Few)
  private var count = 0

  def size: Int = count

  def isEmpty: Boolean = count == 0

  /** The bytes of all rows. */
  def sizeInBytes: Int = if (count == 0) 0 else ends(count - 1)

  /** The hash of a row, by its number. */
  def hash(row: Int): Long = hashes(row)

  /** Points a row to one of the set, by its number. It stays valid until a change of the set. */
  def read(row: Int, into: UnsafeRow): Unit =
    into.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + start(row), ends(row) - start(row))

  /** Writes the bytes of a row, by its number, to a column. */
  def write(row: Int, column: Int, to: UnsafeRowWriter): Unit =
    to.write(column, bytes, start(row), ends(row) - start(row))

  /** Adds a row. Returns whether it is new. */
  def add(row: UnsafeRow): Boolean = add(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes)

  /** Adds a row by its bytes. Returns whether it is new. */
  def add(base: AnyRef, offset: Long, length: Int): Boolean = {
    val hash = hashOf(base, offset, length)
    val at = place(hash, base, offset, length)
    val isNew = table(at) == 0
    if (isNew) {
      append(hash, base, offset, length)
      table(at) = count
      if (2 * count > table.length) rehash(2 * table.length)
    }
    isNew
  }

  def addAll(other: ValueSet): Unit = {
    var row = 0
    while (row < other.count) {
      val from = other.start(row)
      add(other.bytes, Platform.BYTE_ARRAY_OFFSET.toLong + from, other.ends(row) - from)
      row += 1
    }
  }

  def clear(): Unit = {
    bytes = new Array[Byte](FewBytes)
    ends = new Array[Int](Few)
    hashes = new Array[Long](Few)
    table = new Array[Int](2 * Few)
    count = 0
  }

  /** The number of bytes that `store` writes. */
  def storedSize: Int = Header + sizeInBytes + Integer.BYTES * count

  def store(to: Array[Byte], at: Int): Unit = {
    val offset = Platform.BYTE_ARRAY_OFFSET.toLong + at
    Platform.putInt(to, offset, count)
    Platform.putInt(to, offset + Integer.BYTES, sizeInBytes)
    System.arraycopy(bytes, 0, to, at + Header, sizeInBytes)
    Platform.copyMemory(
      ends,
      Platform.INT_ARRAY_OFFSET.toLong,
      to,
      offset + Header + sizeInBytes,
      Integer.BYTES.toLong * count
    )
  }

  /** Replaces the set by a stored one. */
  def load(from: Array[Byte], at: Int): Unit = {
    val offset = Platform.BYTE_ARRAY_OFFSET.toLong + at
    count = Platform.getInt(from, offset)
    val used = Platform.getInt(from, offset + Integer.BYTES)
    bytes = Arrays.copyOfRange(from, at + Header, at + Header + Math.max(used, FewBytes))
    ends = new Array[Int](Math.max(count, Few))
    Platform.copyMemory(
      from,
      offset + Header + used,
      ends,
      Platform.INT_ARRAY_OFFSET.toLong,
      Integer.BYTES.toLong * count
    )
    hashes = new Array[Long](ends.length)
    var row = 0
    while (row < count) {
      val from = start(row)
      hashes(row) = hashOf(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + from, ends(row) - from)
      row += 1
    }
    rehash(Math.max(2 * Few, 2 * Integer.highestOneBit(Math.max(count, 1)) * 2))
  }

  /** The hash of a row's bytes; for tests of equal hashes. */
  protected def hashOf(base: AnyRef, offset: Long, length: Int): Long =
    XXH64.hashUnsafeBytes(base, offset, length, Seed)

  private def start(row: Int): Int = if (row == 0) 0 else ends(row - 1)

  /** The place of a row in the table, or the free place for it. */
  private def place(hash: Long, base: AnyRef, offset: Long, length: Int): Int = {
    val mask = table.length - 1
    var at = hash.toInt & mask
    while (table(at) != 0 && !isSame(table(at) - 1, hash, base, offset, length)) at = at + 1 & mask
    at
  }

  private def isSame(row: Int, hash: Long, base: AnyRef, offset: Long, length: Int): Boolean =
    hashes(row) == hash && ends(row) - start(row) == length &&
      ByteArrayMethods.arrayEquals(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + start(row), base, offset, length.toLong)

  private def append(hash: Long, base: AnyRef, offset: Long, length: Int): Unit = {
    val from = sizeInBytes
    val end = Math.addExact(from, length)
    if (end > bytes.length) bytes = Arrays.copyOf(bytes, grown(bytes.length, end))
    if (count == ends.length) {
      ends = Arrays.copyOf(ends, 2 * count)
      hashes = Arrays.copyOf(hashes, 2 * count)
    }
    Platform.copyMemory(base, offset, bytes, Platform.BYTE_ARRAY_OFFSET.toLong + from, length.toLong)
    ends(count) = end
    hashes(count) = hash
    count += 1
  }

  private def rehash(places: Int): Unit = {
    table = new Array[Int](places)
    val mask = places - 1
    var row = 0
    while (row < count) {
      var at = hashes(row).toInt & mask
      while (table(at) != 0) at = at + 1 & mask
      table(at) = row + 1
      row += 1
    }
  }
}

object ValueSet {
  private final val Few = 8
  private final val FewBytes = 128
  private final val Header = 2 * Integer.BYTES
  private final val Seed = 42L

  private def grown(size: Int, needed: Int): Int =
    Math.max(needed.toLong, Math.min(2L * size, ByteArrayMethods.MAX_ROUNDED_ARRAY_LENGTH.toLong)).toInt
}
