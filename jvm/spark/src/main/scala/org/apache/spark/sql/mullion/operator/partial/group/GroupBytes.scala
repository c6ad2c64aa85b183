package org.apache.spark.sql.mullion.operator.partial.group

import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods
import org.apache.spark.unsafe.hash.Murmur3_x86_32
import org.apache.spark.unsafe.types.UTF8String

/** Strings and bytes of keys in records, for generated code: a column's word contains their offset from the row's start
  * and their size. They are at the end of the row, padded with zeros to full words.
  */
object GroupBytes {
  private val Seed = 42

  def hash(text: UTF8String): Long =
    Murmur3_x86_32.hashUnsafeBytes(text.getBaseObject, text.getBaseOffset, text.numBytes, Seed).toLong

  def hash(bytes: Array[Byte]): Long =
    Murmur3_x86_32.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET.toLong, bytes.length, Seed).toLong

  /** The padded size of a string at the end of a row. */
  def size(text: UTF8String): Int = rounded(text.numBytes)

  def size(bytes: Array[Byte]): Int = rounded(bytes.length)

  private def rounded(bytes: Int): Int = ByteArrayMethods.roundNumberOfBytesToNearestWord(bytes)

  /** True if a column contains this string.
    *
    * @param row
    *   the first word of the record's row in its page
    * @param column
    *   the column's word, relative to that
    */
  def equal(page: Array[Long], row: Int, column: Int, text: UTF8String): Boolean =
    equal(page, row, column, text.getBaseObject, text.getBaseOffset, text.numBytes)

  def equal(page: Array[Long], row: Int, column: Int, bytes: Array[Byte]): Boolean =
    equal(page, row, column, bytes, Platform.BYTE_ARRAY_OFFSET.toLong, bytes.length)

  private def equal(page: Array[Long], row: Int, column: Int, of: AnyRef, from: Long, length: Int): Boolean = {
    val word = page(row + column)
    word.toInt == length && ByteArrayMethods.arrayEquals(page, placeOf(row) + (word >>> 32), of, from, length.toLong)
  }

  /** Writes a string at the byte offset `place` of a row. Returns the offset after it. */
  def put(page: Array[Long], row: Int, column: Int, place: Int, text: UTF8String): Int =
    put(page, row, column, place, text.getBaseObject, text.getBaseOffset, text.numBytes)

  def put(page: Array[Long], row: Int, column: Int, place: Int, bytes: Array[Byte]): Int =
    put(page, row, column, place, bytes, Platform.BYTE_ARRAY_OFFSET.toLong, bytes.length)

  private def put(
      page: Array[Long],
      row: Int,
      column: Int,
      place: Int,
      of: AnyRef,
      from: Long,
      length: Int
  ): Int = {
    val next = place + rounded(length)
    if (next > place) page(row + next / 8 - 1) = 0L
    Platform.copyMemory(of, from, page, placeOf(row) + place, length.toLong)
    page(row + column) = (place.toLong << 32) | length
    next
  }

  /** The offset of a word of a page for Spark's `Platform`. */
  private[partial] def placeOf(word: Int): Long = Platform.LONG_ARRAY_OFFSET + (word.toLong << 3)
}
