package org.apache.spark.sql.mullion.state.record

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/** The layout of a record in an array of bytes, in memory and in segments:
  *
  * {{{
  *   [key length, 4][value length, 4][key][value]
  * }}}
  */
private[mullion] object RecordBytes {
  final val Header = 8

  /** A position in an array, in the form for rows and `Platform`. */
  def offset(position: Int): Long = Platform.BYTE_ARRAY_OFFSET.toLong + position

  def size(key: UnsafeRow, value: UnsafeRow): Int = Header + key.getSizeInBytes + value.getSizeInBytes

  def write(key: UnsafeRow, value: UnsafeRow, to: Array[Byte], at: Int): Unit = {
    Platform.putInt(to, offset(at), key.getSizeInBytes)
    Platform.putInt(to, offset(at + 4), value.getSizeInBytes)
    copy(key, to, at + Header)
    copy(value, to, at + Header + key.getSizeInBytes)
  }

  /** Points rows to the key and the value of a record. Returns the start of the next one. */
  def read(base: AnyRef, from: Long, key: UnsafeRow, value: UnsafeRow): Long = {
    val keyLength = Platform.getInt(base, from)
    val valueLength = Platform.getInt(base, from + 4)
    key.pointTo(base, from + Header, keyLength)
    value.pointTo(base, from + Header + keyLength, valueLength)
    from + Header + keyLength + valueLength
  }

  /** Copies a row's bytes. */
  def copy(row: UnsafeRow, to: Array[Byte], at: Int): Unit = row.getBaseObject match {
    case from: Array[Byte] =>
      val start = (row.getBaseOffset - Platform.BYTE_ARRAY_OFFSET).toInt
      System.arraycopy(from, start, to, at, row.getSizeInBytes)
    case other => Platform.copyMemory(other, row.getBaseOffset, to, offset(at), row.getSizeInBytes.toLong)
  }

  /** Copies words one by one: for few words this is faster than a bulk copy, whose call has a fixed cost. */
  def copyWords(base: AnyRef, from: Long, to: AnyRef, at: Long, bytes: Int): Unit = {
    var i = 0
    while (i < bytes) {
      Platform.putLong(to, at + i, Platform.getLong(base, from + i))
      i += 8
    }
  }

  /** A row's bytes in a new array. */
  def of(row: UnsafeRow): Array[Byte] = {
    val bytes = new Array[Byte](row.getSizeInBytes)
    copy(row, bytes, 0)
    bytes
  }
}
