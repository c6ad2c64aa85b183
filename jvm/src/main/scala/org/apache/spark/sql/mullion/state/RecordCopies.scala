package org.apache.spark.sql.mullion.state

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.UnsafeRowPair
import org.apache.spark.unsafe.Platform

/** Copies of records side by side in an array that is used again: they are the caller's to change, and stand until the
  * next is handed out.
  */
private[state] final class RecordCopies(keyColumns: Int, valueColumns: Int) {
  import RecordCopies.{at, Header}

  private val key = new UnsafeRow(keyColumns)
  private val value = new UnsafeRow(valueColumns)
  private val pair = new UnsafeRowPair().withRows(key, value)
  private var bytes = new Array[Byte](256)
  private var start = 0
  private var end = 0

  def clear(): Unit = {
    start = 0
    end = 0
  }

  /** Copies the record that a cursor is on. */
  def add(cursor: SortedRecords.Cursor): Unit = {
    cursor.keyTo(key)
    cursor.valueTo(value)
    makeRoom(Header + key.getSizeInBytes + value.getSizeInBytes)
    Platform.putInt(bytes, at(end), key.getSizeInBytes)
    Platform.putInt(bytes, at(end + 4), value.getSizeInBytes)
    end += Header
    append(key)
    append(value)
  }

  def hasNext: Boolean = start < end

  /** The next of the copies. */
  def next(): UnsafeRowPair = {
    val keyLength = Platform.getInt(bytes, at(start))
    val valueLength = Platform.getInt(bytes, at(start + 4))
    start += Header
    key.pointTo(bytes, at(start), keyLength)
    value.pointTo(bytes, at(start + keyLength), valueLength)
    start += keyLength + valueLength
    pair
  }

  /** A copy of one value alone. */
  def only(row: UnsafeRow): UnsafeRow = {
    clear()
    makeRoom(row.getSizeInBytes)
    append(row)
    value.pointTo(bytes, end)
    value
  }

  private def makeRoom(length: Int): Unit =
    if (length > bytes.length - end) bytes = Arrays.copyOf(bytes, Math.addExact(end + length, (end + length) >> 2))

  private def append(row: UnsafeRow): Unit = {
    Leaf.copyBytes(row, bytes, end)
    end += row.getSizeInBytes
  }
}

private[state] object RecordCopies {
  // How many bytes a key and a value have.
  private final val Header = 8

  private def at(position: Int): Long = Platform.BYTE_ARRAY_OFFSET.toLong + position
}
