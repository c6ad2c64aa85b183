package org.apache.spark.sql.mullion.state.segments

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.records.RecordBytes
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

/** How the records of a segment lie in the bytes that RocksDB has of it: packed where that makes them fewer, and as
  * they are where not.
  *
  * {{{
  *   [key's length, 4][value's, 4][key][value] ...                      as they are
  *   [-1, 4][how many bytes they are, 4][packed words][8 bytes]         packed: no key has a length of -1
  * }}}
  *
  * Records are whole words, for keys and values are rows.
  */
private[segments] final class SegmentBody {
  import SegmentBody._

  private val row = new UnsafeRow(1)
  private var packed = Array.emptyByteArray
  private var unpacked = Array.emptyByteArray
  private var base: AnyRef = unpacked
  private var start = 0L
  private var end = 0L

  /** A row of one column with the records of an array.
    *
    * @param bytes
    *   whose first [[SegmentBody.Header]] bytes are for what a row has before its column
    * @param end
    *   where the records end
    */
  def of(bytes: Array[Byte], end: Int): UnsafeRow = {
    val packedEnd = if (PackedWords.arePacked && end <= MostPacked) pack(bytes, end) else Int.MaxValue
    if (packedEnd > end - end / 8) rowOf(row, bytes, end) else rowOf(row, packed, packedEnd)
  }

  /** Packs records; where they end. */
  private def pack(bytes: Array[Byte], end: Int): Int = {
    val words = (end - Header) / 8
    val most = Header + Marks + PackedWords.most(words) + 8
    if (packed.length < most) packed = new Array[Byte](most)
    Platform.putInt(packed, RecordBytes.offset(Header), Packed)
    Platform.putInt(packed, RecordBytes.offset(Header + 4), end - Header)
    val packedEnd = PackedWords.pack(bytes, Header, words, packed, Header + Marks)
    // With what a row has up to a whole word.
    Arrays.fill(packed, packedEnd, packedEnd + PackedWords.Beyond + 8, 0: Byte)
    packedEnd + PackedWords.Beyond
  }

  /** Goes through the records of such a row. They stand until the next is opened. */
  def open(body: UnsafeRow): Unit = {
    base = body.getBaseObject
    start = startOf(body)
    end = start + lengthOf(body)
    if (isPacked(body)) {
      val length = sizeOf(body)
      if (unpacked.length < length) unpacked = new Array[Byte](length)
      PackedWords.unpack(base, start + Marks, end - PackedWords.Beyond, length / 8, unpacked)
      base = unpacked
      start = RecordBytes.offset(0)
      end = start + length
    }
  }

  /** Has rows stand on the next record, if there is one. */
  def next(key: UnsafeRow, value: UnsafeRow): Boolean = start < end && {
    start = RecordBytes.read(base, start, key, value)
    true
  }
}

private[segments] object SegmentBody {
  // Of a row of one column of bytes: its nulls, and where the bytes are.
  final val Header = 16

  // One large record is no reason for as much room again, and seldom has numbers.
  private final val MostPacked = 1 << 16
  private final val Packed = -1
  private final val Marks = 8

  /** How many bytes the records are that a row has, as they were written. */
  def sizeOf(body: UnsafeRow): Int =
    if (isPacked(body)) Platform.getInt(body.getBaseObject, startOf(body) + 4) else lengthOf(body)

  /** Has `row` be one column, of bytes that follow a header and end at `end`. */
  def rowOf(row: UnsafeRow, bytes: Array[Byte], end: Int): UnsafeRow = {
    Platform.putLong(bytes, RecordBytes.offset(8), Header.toLong << 32 | (end - Header))
    row.pointTo(bytes, ByteArrayMethods.roundNumberOfBytesToNearestWord(end))
    row
  }

  private def isPacked(body: UnsafeRow) =
    lengthOf(body) > 0 && Platform.getInt(body.getBaseObject, startOf(body)) == Packed

  /** Where the bytes of a row of one column are, and how many. */
  def startOf(body: UnsafeRow) = body.getBaseOffset + (body.getLong(0) >>> 32)

  def lengthOf(body: UnsafeRow) = body.getLong(0).toInt
}
