package org.apache.spark.sql.mullion.state.packed

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.record.RecordBytes
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods

/** The encoding of a segment's records in RocksDB: packed if that is shorter.
  *
  * {{{
  *   [key's length, 4][value's, 4][key][value] ...                      unpacked
  *   [-1, 4][unpacked size, 4][packed words][8 bytes]                   packed: no key has a length of -1
  * }}}
  *
  * Records consist of words, because keys and values are rows.
  */
private[packed] final class SegmentBody {
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
    *   whose first [[SegmentBody.Header]] bytes are reserved for the row's header
    * @param end
    *   the end of the records
    */
  def of(bytes: Array[Byte], end: Int): UnsafeRow = {
    val packedEnd = if (PackedWords.arePacked && end <= MostPacked) pack(bytes, end) else Int.MaxValue
    if (packedEnd > end - end / 8) rowOf(row, bytes, end) else rowOf(row, packed, packedEnd)
  }

  /** Packs records. Returns their end. */
  private def pack(bytes: Array[Byte], end: Int): Int = {
    val words = (end - Header) / 8
    val most = Header + Marks + PackedWords.most(words) + 8
    if (packed.length < most) packed = new Array[Byte](most)
    Platform.putInt(packed, RecordBytes.offset(Header), Packed)
    Platform.putInt(packed, RecordBytes.offset(Header + 4), end - Header)
    val packedEnd = PackedWords.pack(bytes, Header, words, packed, Header + Marks)
    // Includes the padding of a row to a full word.
    Arrays.fill(packed, packedEnd, packedEnd + PackedWords.Beyond + 8, 0: Byte)
    packedEnd + PackedWords.Beyond
  }

  /** Opens such a row for reading. Its records are valid until the next is opened. */
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

  /** Points rows to the next record, if there is one. */
  def next(key: UnsafeRow, value: UnsafeRow): Boolean = start < end && {
    start = RecordBytes.read(base, start, key, value)
    true
  }
}

private[packed] object SegmentBody {
  // The header of a row with one binary column: its nulls, and the position of the bytes.
  final val Header = 16

  // A large record rarely contains numbers, and packing it would double its memory.
  private final val MostPacked = 1 << 16
  private final val Packed = -1
  private final val Marks = 8

  /** The unpacked size of a row's records. */
  def sizeOf(body: UnsafeRow): Int =
    if (isPacked(body)) Platform.getInt(body.getBaseObject, startOf(body) + 4) else lengthOf(body)

  /** Makes `row` one binary column whose bytes follow a header and end at `end`. */
  def rowOf(row: UnsafeRow, bytes: Array[Byte], end: Int): UnsafeRow = {
    Platform.putLong(bytes, RecordBytes.offset(8), Header.toLong << 32 | (end - Header))
    row.pointTo(bytes, ByteArrayMethods.roundNumberOfBytesToNearestWord(end))
    row
  }

  private def isPacked(body: UnsafeRow) =
    lengthOf(body) > 0 && Platform.getInt(body.getBaseObject, startOf(body)) == Packed

  /** The position of the bytes of a row of one column, and their number. */
  def startOf(body: UnsafeRow) = body.getBaseOffset + (body.getLong(0) >>> 32)

  def lengthOf(body: UnsafeRow) = body.getLong(0).toInt
}
