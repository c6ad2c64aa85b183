package org.apache.spark.sql.mullion.state.btree

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.record.RecordBytes

/** Copies of records in a reused array: the caller may change them, and they are valid until the next call. */
private[state] final class RecordCopies(keyColumns: Int, valueColumns: Int) {

  /** The key of the current copy. */
  val key: UnsafeRow = new UnsafeRow(keyColumns)

  val value: UnsafeRow = new UnsafeRow(valueColumns)
  private var bytes = new Array[Byte](256)
  private var start = 0
  private var end = 0

  def clear(): Unit = {
    start = 0
    end = 0
  }

  /** Copies the record of a cursor. */
  def add(cursor: VersionedBTree.Cursor): Unit = {
    cursor.keyTo(key)
    cursor.valueTo(value)
    makeRoom(RecordBytes.size(key, value))
    RecordBytes.write(key, value, bytes, end)
    end += RecordBytes.size(key, value)
  }

  def hasNext: Boolean = start < end

  /** Moves to the next copy. */
  def next(): Unit = {
    val after = RecordBytes.read(bytes, RecordBytes.offset(start), key, value)
    start = (after - RecordBytes.offset(0)).toInt
  }

  /** A copy of a single value. */
  def only(row: UnsafeRow): UnsafeRow = {
    clear()
    makeRoom(row.getSizeInBytes)
    RecordBytes.copy(row, bytes, 0)
    value.pointTo(bytes, row.getSizeInBytes)
    value
  }

  private def makeRoom(length: Int): Unit =
    if (length > bytes.length - end) bytes = Arrays.copyOf(bytes, Math.addExact(end + length, (end + length) >> 2))
}
