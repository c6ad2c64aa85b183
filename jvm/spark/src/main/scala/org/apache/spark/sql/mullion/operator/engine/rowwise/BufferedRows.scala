package org.apache.spark.sql.mullion.operator.engine.rowwise

import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/** Rows as consecutive bytes: their sizes, and their content. */
private[operator] object BufferedRows {
  def bytesOf(row: UnsafeRow): Long = 4L + row.getSizeInBytes

  def toBytes(rows: collection.IndexedSeq[UnsafeRow]): Array[Byte] = {
    val buffer = ByteBuffer.allocate(Math.toIntExact(rows.foldLeft(0L)((sum, row) => sum + bytesOf(row))))
    rows.foreach { row =>
      buffer.putInt(row.getSizeInBytes)
      row.writeToMemory(buffer.array, Platform.BYTE_ARRAY_OFFSET + buffer.position())
      buffer.position(buffer.position() + row.getSizeInBytes)
    }
    buffer.array
  }

  def foreach(width: Int, bytes: Array[Byte])(use: UnsafeRow => Unit): Unit = {
    val buffer = ByteBuffer.wrap(bytes)
    while (buffer.hasRemaining) {
      val size = buffer.getInt
      val row = new UnsafeRow(width)
      // A row must be 8-byte aligned.
      row.pointTo(java.util.Arrays.copyOfRange(bytes, buffer.position(), buffer.position() + size), size)
      buffer.position(buffer.position() + size)
      use(row)
    }
  }
}
