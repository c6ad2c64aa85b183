package org.apache.spark.sql.mullion.state.records

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/** How a record lies among others in an array of bytes, in memory and in segments alike:
  *
  * {{{
  *   [how many bytes its key is, 4][its value, 4][key][value]
  * }}}
  */
private[mullion] object RecordBytes {
  final val Header = 8

  /** A position in an array, as rows and `Platform` count it. */
  def offset(position: Int): Long = Platform.BYTE_ARRAY_OFFSET.toLong + position

  def size(key: UnsafeRow, value: UnsafeRow): Int = Header + key.getSizeInBytes + value.getSizeInBytes

  def write(key: UnsafeRow, value: UnsafeRow, to: Array[Byte], at: Int): Unit = {
    Platform.putInt(to, offset(at), key.getSizeInBytes)
    Platform.putInt(to, offset(at + 4), value.getSizeInBytes)
    copy(key, to, at + Header)
    copy(value, to, at + Header + key.getSizeInBytes)
  }

  /** Has rows stand on the key and the value of a record; where the next one starts. */
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

  /** Copies whole words one by one: of few, in less time than a call that copies takes to begin, and the processor goes
    * on to what comes after them.
    */
  def copyWords(base: AnyRef, from: Long, to: AnyRef, at: Long, bytes: Int): Unit = {
    var i = 0
    while (i < bytes) {
      Platform.putLong(to, at + i, Platform.getLong(base, from + i))
      i += 8
    }
  }

  /** A row's bytes in an array of their own. */
  def of(row: UnsafeRow): Array[Byte] = {
    val bytes = new Array[Byte](row.getSizeInBytes)
    copy(row, bytes, 0)
    bytes
  }
}
