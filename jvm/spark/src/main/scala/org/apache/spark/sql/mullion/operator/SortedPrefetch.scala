package org.apache.spark.sql.mullion.operator

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.record.RecordBytes
import org.apache.spark.unsafe.Platform

/** The rows of a sort, of which some are copied in advance.
  *
  * Sorted rows are scattered in memory. If they are read one by one, with all work per row in between, each is a cache
  * miss. In a short loop several misses overlap.
  *
  * {{{
  *   pages of the sort    [r3] [r9] [r1] [r7] ...      read in order: 1, 3, 7, 9
  *   copies               [r1][r3][r7][r9]             until they are used up
  * }}}
  *
  * Copies instead of addresses, because the sort may release its pages between two calls. A row is valid until the next
  * one.
  */
private[operator] final class SortedPrefetch(sorted: Iterator[InternalRow], columns: Int)
    extends Iterator[InternalRow] {
  import SortedPrefetch._

  private val row = new UnsafeRow(columns)
  private var bytes = new Array[Byte](Room)
  private val ends = new Array[Int](AtOnce)
  private var taken = 0
  private var out = 0
  private var start = 0

  override def hasNext: Boolean = out < taken || sorted.hasNext

  override def next(): InternalRow = {
    if (out == taken) take()
    val end = ends(out)
    row.pointTo(bytes, RecordBytes.offset(start), end - start)
    start = end
    out += 1
    row
  }

  private def take(): Unit = {
    taken = 0
    out = 0
    start = 0
    var end = 0
    // True in the first iteration, because of `hasNext`.
    while ({
      val next = sorted.next().asInstanceOf[UnsafeRow]
      val size = next.getSizeInBytes
      if (end + size > bytes.length) bytes = Arrays.copyOf(bytes, end + size)
      copy(next, size, end)
      end += size
      ends(taken) = end
      taken += 1
      taken < AtOnce && end < Room && sorted.hasNext
    }) ()
  }

  private def copy(from: UnsafeRow, size: Int, at: Int): Unit = {
    val base = from.getBaseObject
    val first = from.getBaseOffset
    val to = RecordBytes.offset(at)
    if (size > Short) Platform.copyMemory(base, first, bytes, to, size.toLong)
    else RecordBytes.copyWords(base, first, bytes, to, size)
  }
}

private object SortedPrefetch {
  private final val AtOnce = 64
  private final val Room = 8192

  // Rows consist of words.
  private final val Short = 192
}
