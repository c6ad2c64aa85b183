package org.apache.spark.sql.mullion.operator.engine.aligned

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.record.RecordBytes
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.Platform

/** Consecutive slices of a key in one record: under the ordinal of the first possible one, the accumulators of the
  * existing ones, and a word of bits for these.
  *
  * {{{
  *   ordinals   0  1  2  3  4  5  6  7 | 8  9 ...
  *   rows in    x     x  x             |    x
  *   records    0 -> [sum 0][sum 2][sum 3][1011]
  *              8 -> [sum 9][10]
  * }}}
  *
  * For Spark a record is a row with the first accumulator's columns, followed by bytes. An accumulator alone, without
  * the word, is the slice with the record's ordinal: the form before there were blocks, which is still read.
  *
  * @param columns
  *   the number of columns of an accumulator, each of eight bytes
  */
private[operator] final class SliceBlock(columns: Int) {
  import SliceBlock._

  private val width = widthOf(columns)
  private val bytes = new Array[Byte](Slots * width + Word)
  private val one = new UnsafeRow(columns)
  private val fullRecord = new UnsafeRow(columns)
  private var slots = 0
  private var start = 0L

  /** The ordinal of its record. */
  def first: Long = start

  /** Its slices, as bits. */
  def sliceBits: Int = slots

  /** Begins another block, without slices. */
  def begin(first: Long): Unit = {
    start = first
    slots = 0
  }

  def has(slot: Int): Boolean = (slots >>> slot & 1) != 0

  /** The accumulator of an existing slice, in place: it may be changed. */
  def apply(slot: Int): UnsafeRow = {
    one.pointTo(bytes, RecordBytes.offset(placeOf(slot)), width)
    one
  }

  private def placeOf(slot: Int): Int = Integer.bitCount(slots & ((1 << slot) - 1)) * width

  /** Adds the accumulator of a new slice. */
  def insert(slot: Int, sum: UnsafeRow): Unit = {
    require(sum.getSizeInBytes == width, s"an accumulator of ${sum.getSizeInBytes} bytes, and not of $width")
    val at = placeOf(slot)
    val end = Integer.bitCount(slots) * width
    System.arraycopy(bytes, at, bytes, at + width, end - at)
    RecordBytes.copy(sum, bytes, at)
    slots |= 1 << slot
  }

  /** Adds the wanted slices of a record. */
  def read(record: UnsafeRow, wanted: Int): Unit = {
    val there = heldBy(record, columns)
    if ((there & ~wanted) == 0) {
      RecordBytes.copy(record, bytes, 0)
      slots = there
    } else foreachOf(record, one)((slot, sum) => if ((wanted >>> slot & 1) != 0) insert(slot, sum))
  }

  /** The record, valid until a change. */
  def record: UnsafeRow = {
    val end = Integer.bitCount(slots) * width
    Platform.putLong(bytes, RecordBytes.offset(end), slots.toLong)
    fullRecord.pointTo(bytes, RecordBytes.offset(0), end + Word)
    fullRecord
  }
}

private[operator] object SliceBlock {

  /** The maximum number of slices in a record: enough that few records are read per window, and few enough that an
    * update rewrites little.
    */
  final val Slots = 8

  private final val Word = 8

  // Wider accumulators have their own records.
  private final val MostColumns = 15

  /** True if accumulators may be in blocks: they must have a fixed width. */
  def mayHold(types: Seq[DataType]): Boolean =
    types.nonEmpty && types.length <= MostColumns && types.forall(UnsafeRow.isFixedLength)

  def firstOf(ordinal: Long): Long = ordinal & -Slots.toLong

  def slotOf(ordinal: Long): Int = (ordinal & (Slots - 1)).toInt

  def widthOf(columns: Int): Int = UnsafeRow.calculateBitSetWidthInBytes(columns) + 8 * columns

  /** True if a record is a block, and not the accumulator of one slice. */
  def isBlock(record: UnsafeRow, columns: Int): Boolean = record.getSizeInBytes != widthOf(columns)

  /** The slices of a record, as bits. */
  def heldBy(record: UnsafeRow, columns: Int): Int =
    if (!isBlock(record, columns)) 1
    else Platform.getLong(record.getBaseObject, record.getBaseOffset + record.getSizeInBytes - Word).toInt

  /** The slices at most `after` ordinals after the first possible one.
    *
    * @param after
    *   unsigned: slices may be as far apart as time is long
    */
  def upTo(slices: Int, after: Long): Int =
    if (java.lang.Long.compareUnsigned(after, Slots - 1L) >= 0) slices else slices & ((2 << after.toInt) - 1)

  /** Iterates over the slices of a record.
    *
    * @param sum
    *   a row of an accumulator's columns, pointed to each
    */
  def foreachOf(record: UnsafeRow, sum: UnsafeRow)(use: (Int, UnsafeRow) => Unit): Unit = {
    val width = widthOf(sum.numFields)
    var remaining = heldBy(record, sum.numFields)
    var at = record.getBaseOffset
    while (remaining != 0) {
      sum.pointTo(record.getBaseObject, at, width)
      use(Integer.numberOfTrailingZeros(remaining), sum)
      remaining &= remaining - 1
      at += width
    }
  }
}
