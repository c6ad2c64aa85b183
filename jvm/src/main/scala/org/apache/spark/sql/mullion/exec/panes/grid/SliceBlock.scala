package org.apache.spark.sql.mullion.exec.panes.grid

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.records.RecordBytes
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.Platform

/** Slices of a key that follow each other, in one record: under the ordinal of the first that may be there, the
  * accumulators of those that are there, and a word that says which these are.
  *
  * {{{
  *   ordinals   0  1  2  3  4  5  6  7 | 8  9 ...
  *   rows in    x     x  x             |    x
  *   records    0 -> [sum 0][sum 2][sum 3][1011]
  *              8 -> [sum 9][10]
  * }}}
  *
  * To Spark a record is a row with the first accumulator's columns, and with some bytes behind these. An accumulator
  * alone, without the word, is the slice that the record is named for: so have all been written before there were
  * blocks, and so they are read still.
  *
  * @param columns
  *   how many an accumulator has, each of eight bytes
  */
private[exec] final class SliceBlock(columns: Int) {
  import SliceBlock._

  private val width = widthOf(columns)
  private val bytes = new Array[Byte](Slots * width + Word)
  private val one = new UnsafeRow(columns)
  private val whole = new UnsafeRow(columns)
  private var slots = 0
  private var start = 0L

  /** The ordinal that it is named for. */
  def first: Long = start

  /** Which slices it has, by their bits. */
  def held: Int = slots

  /** Begins another block, without slices. */
  def begin(first: Long): Unit = {
    start = first
    slots = 0
  }

  def has(slot: Int): Boolean = (slots >>> slot & 1) != 0

  /** The accumulator of a slice that it has, where it lies: it may be changed. */
  def apply(slot: Int): UnsafeRow = {
    one.pointTo(bytes, RecordBytes.offset(placeOf(slot)), width)
    one
  }

  private def placeOf(slot: Int): Int = Integer.bitCount(slots & ((1 << slot) - 1)) * width

  /** Takes in the accumulator of a slice that it has not. */
  def insert(slot: Int, sum: UnsafeRow): Unit = {
    require(sum.getSizeInBytes == width, s"an accumulator of ${sum.getSizeInBytes} bytes, and not of $width")
    val at = placeOf(slot)
    val end = Integer.bitCount(slots) * width
    System.arraycopy(bytes, at, bytes, at + width, end - at)
    RecordBytes.copy(sum, bytes, at)
    slots |= 1 << slot
  }

  /** Takes in the slices of a record that are among those wanted. */
  def read(record: UnsafeRow, wanted: Int): Unit = {
    val there = heldBy(record, columns)
    if ((there & ~wanted) == 0) {
      RecordBytes.copy(record, bytes, 0)
      slots = there
    } else foreachOf(record, one)((slot, sum) => if ((wanted >>> slot & 1) != 0) insert(slot, sum))
  }

  /** The record; it stands until something changes. */
  def record: UnsafeRow = {
    val end = Integer.bitCount(slots) * width
    Platform.putLong(bytes, RecordBytes.offset(end), slots.toLong)
    whole.pointTo(bytes, RecordBytes.offset(0), end + Word)
    whole
  }
}

private[exec] object SliceBlock {

  /** How many slices a record may have: enough that few records are read for a window, and few enough that a row which
    * comes to one of them has little to write again.
    */
  final val Slots = 8

  private final val Word = 8

  // Of wider accumulators each has a record of its own.
  private final val MostColumns = 15

  /** True if accumulators may lie in blocks: what is known of them is that all have one width. */
  def mayHold(types: Seq[DataType]): Boolean =
    types.nonEmpty && types.length <= MostColumns && types.forall(UnsafeRow.isFixedLength)

  def firstOf(ordinal: Long): Long = ordinal & -Slots.toLong

  def slotOf(ordinal: Long): Int = (ordinal & (Slots - 1)).toInt

  def widthOf(columns: Int): Int = UnsafeRow.calculateBitSetWidthInBytes(columns) + 8 * columns

  /** True if a record is a block, and not the accumulator of one slice. */
  def isBlock(record: UnsafeRow, columns: Int): Boolean = record.getSizeInBytes != widthOf(columns)

  /** Which slices a record has, by their bits. */
  def heldBy(record: UnsafeRow, columns: Int): Int =
    if (!isBlock(record, columns)) 1
    else Platform.getLong(record.getBaseObject, record.getBaseOffset + record.getSizeInBytes - Word).toInt

  /** Those of some slices that come at most so many ordinals after the first that may be there.
    *
    * @param after
    *   without a sign: slices may be as far apart as time is long
    */
  def upTo(slices: Int, after: Long): Int =
    if (java.lang.Long.compareUnsigned(after, Slots - 1L) >= 0) slices else slices & ((2 << after.toInt) - 1)

  /** Goes through the slices of a record.
    *
    * @param sum
    *   a row of an accumulator's columns, which stands on each
    */
  def foreachOf(record: UnsafeRow, sum: UnsafeRow)(use: (Int, UnsafeRow) => Unit): Unit = {
    val width = widthOf(sum.numFields)
    var left = heldBy(record, sum.numFields)
    var at = record.getBaseOffset
    while (left != 0) {
      sum.pointTo(record.getBaseObject, at, width)
      use(Integer.numberOfTrailingZeros(left), sum)
      left &= left - 1
      at += width
    }
  }
}
