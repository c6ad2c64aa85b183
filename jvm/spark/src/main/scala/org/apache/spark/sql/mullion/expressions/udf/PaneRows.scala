package org.apache.spark.sql.mullion.expressions.udf

import java.nio.ByteBuffer
import java.util.{ArrayList => JavaList}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.unsafe.Platform

/** The buffer of a Python aggregate for one pane: accumulators as Python encodes them, and rows that wait to be added.
  *
  * {{{
  *   bytes   int accumulators | int rows | (int length, accumulator)* | (long time, int length, row)*
  * }}}
  *
  * Merging two buffers concatenates them. The times are there for aggregates in the order of time, and zero otherwise.
  *
  * @param width
  *   the columns of a row
  */
final class PaneRows(width: Int) {
  private val accumulators = new JavaList[Array[Byte]](1)
  private val rows = new JavaList[UnsafeRow](4)
  private var times = new Array[Long](4)
  private var sizeOfRows = 0L

  def accumulatorCount: Int = accumulators.size

  def rowCount: Int = rows.size

  def rowBytes: Long = sizeOfRows

  def accumulator(i: Int): Array[Byte] = accumulators.get(i)

  def addRow(time: Long, row: UnsafeRow): Unit = {
    val n = rows.size
    if (n == times.length) times = java.util.Arrays.copyOf(times, n * 2)
    times(n) = time
    rows.add(row)
    sizeOfRows += row.getSizeInBytes
  }

  def addAll(other: PaneRows): Unit = {
    accumulators.addAll(other.accumulators)
    var i = 0
    while (i < other.rowCount) { addRow(other.times(i), other.rows.get(i)); i += 1 }
  }

  /** Replaces the contents by one accumulator of all of them. */
  def become(accumulator: Array[Byte]): Unit = {
    accumulators.clear()
    accumulators.add(accumulator)
    rows.clear()
    times = new Array[Long](4)
    sizeOfRows = 0
  }

  def accumulatorsAsArray: GenericArrayData = new GenericArrayData(accumulators.toArray)

  /** The rows in the order of arrival, or of their times. */
  def rowsInOrder(byTime: Boolean): Iterator[UnsafeRow] =
    if (!byTime) rows.iterator.asScala
    else {
      val order = Array.tabulate[Integer](rows.size)(i => i)
      // The sort is stable: rows of one time stay in the order of arrival.
      java.util.Arrays.sort(order, (a: Integer, b: Integer) => java.lang.Long.compare(times(a), times(b)))
      order.iterator.map(i => rows.get(i))
    }

  def toBytes: Array[Byte] = {
    var size = 8L + 12L * rows.size + sizeOfRows
    accumulators.forEach(a => size += 4 + a.length)
    val buffer = ByteBuffer.allocate(Math.toIntExact(size)).putInt(accumulators.size).putInt(rows.size)
    accumulators.forEach { a => buffer.putInt(a.length).put(a); () }
    var i = 0
    while (i < rows.size) {
      val row = rows.get(i)
      buffer.putLong(times(i)).putInt(row.getSizeInBytes)
      row.writeToMemory(buffer.array, Platform.BYTE_ARRAY_OFFSET + buffer.position())
      buffer.position(buffer.position() + row.getSizeInBytes)
      i += 1
    }
    buffer.array
  }
}

object PaneRows {

  /** The number of rows in the bytes of a buffer. */
  def rowCountOf(bytes: Array[Byte]): Int = ByteBuffer.wrap(bytes).getInt(4)

  def fromBytes(width: Int, bytes: Array[Byte]): PaneRows = {
    val of = new PaneRows(width)
    val buffer = ByteBuffer.wrap(bytes)
    var accumulators = buffer.getInt
    var rows = buffer.getInt
    while (accumulators > 0) {
      val accumulator = new Array[Byte](buffer.getInt)
      buffer.get(accumulator)
      of.accumulators.add(accumulator)
      accumulators -= 1
    }
    while (rows > 0) {
      val (time, size) = (buffer.getLong, buffer.getInt)
      val row = new UnsafeRow(width)
      // A row's words must be aligned to eight bytes.
      row.pointTo(java.util.Arrays.copyOfRange(bytes, buffer.position(), buffer.position() + size), size)
      buffer.position(buffer.position() + size)
      of.addRow(time, row)
      rows -= 1
    }
    of
  }
}
