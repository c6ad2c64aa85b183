package org.apache.spark.sql.mullion.state.rocksdb

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/** Copies of rows in chunks of bytes, as far as there is memory for them.
  *
  * {{{
  *   chunk   size of row 0 | row 0 | size of row 1 | row 1 | ... | 0
  * }}}
  *
  * @param share
  *   the source of the chunks' memory
  */
private[state] final class RowBytes(columns: Int, private[rocksdb] val share: CacheMemory.Share) {
  import RowBytes._

  private val chunks = ArrayBuffer.empty[Array[Byte]]
  private var last = Array.emptyByteArray
  private var used = 0
  private var taken = 0L

  // State records have priority, as they may grow later in the batch.
  private val most = share.room / Part

  /** The bytes of all chunks. */
  def bytes: Long = taken

  /** Copies a row; false if there is no room for it. */
  def add(row: UnsafeRow): Boolean = {
    val size = row.getSizeInBytes
    // Computed without overflow: a row may have two gigabytes.
    val isAdded = size.toLong + Header <= (last.length - used).toLong || grow(size.toLong + Header)
    if (isAdded) {
      Platform.putInt(last, Platform.BYTE_ARRAY_OFFSET + used.toLong, size)
      row.writeToMemory(last, Platform.BYTE_ARRAY_OFFSET + used.toLong + Header)
      used += Header + size
    }
    isAdded
  }

  private def grow(needed: Long): Boolean = {
    val size = Math.max(needed, Math.min(Math.max(taken, Smallest), Largest))
    val isGiven = taken + size <= most && size <= Int.MaxValue - 16 && share.covers(taken + size)
    if (isGiven) {
      last = new Array[Byte](size.toInt)
      chunks += last
      used = 0
      taken += size
    }
    isGiven
  }

  /** Releases the task's memory for the rows, which may stay in a block. */
  def release(): Unit = share.shrink(0L)

  def free(): Unit = {
    chunks.clear()
    last = Array.emptyByteArray
    used = 0
    release()
  }

  /** The rows in order. A row is valid until the next one. */
  def iterator: Iterator[InternalRow] = new Iterator[InternalRow] {
    private val row = new UnsafeRow(columns)
    private var number = 0
    private var chunk = Array.emptyByteArray
    private var at = 0

    override def hasNext: Boolean = isAtRow || {
      while (!isAtRow && number < chunks.length) {
        chunk = chunks(number)
        number += 1
        at = 0
      }
      isAtRow
    }

    private def isAtRow = at + Header <= chunk.length && rowSize > 0

    private def rowSize = Platform.getInt(chunk, Platform.BYTE_ARRAY_OFFSET + at.toLong)

    override def next(): InternalRow = {
      if (!hasNext) throw new NoSuchElementException
      val size = rowSize
      row.pointTo(chunk, Platform.BYTE_ARRAY_OFFSET + at.toLong + Header, size)
      at += Header + size
      row
    }
  }
}

private[state] object RowBytes {
  // Rows begin at full words.
  private final val Header = 8

  private final val Smallest = 1024L
  private final val Largest = 256L * 1024

  // The fraction of the available memory for the rows of one partition.
  private final val Part = 8
}
