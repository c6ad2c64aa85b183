package org.apache.spark.sql.mullion.operator.engine.rowwise

import scala.collection.mutable

import org.apache.spark.executor.ShuffleWriteMetrics
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.expressions.rows.CollectedRows
import org.apache.spark.unsafe.Platform
import org.apache.spark.util.collection.unsafe.sort.{UnsafeSorterSpillReader, UnsafeSorterSpillWriter}
import org.apache.spark.{SparkEnv, TaskContext}

/** Sorts the rows of a large pane by time and arrival, or by arrival alone. It holds few of them in memory:
  *
  * {{{
  *   rows    - sort as many as a piece has in state -   files of level 0
  *   16 files of a level           - merge -            a file of the next level
  *   the remaining files, <= 16    - merge -            sorted rows
  * }}}
  *
  * Spark's sorter would hold as many rows as the task has memory for, and then read all of its files at once, with
  * three megabytes for each. A heap that is small for the pane has many small files.
  *
  * @param width
  *   the number of columns of a row
  */
private[rowwise] final class RowSorter(byTime: Boolean, width: Int) {
  import RowSorter._

  private val env = SparkEnv.get
  private val context = TaskContext.get()
  private val files = mutable.ArrayBuffer.empty[SortedFile]
  // A record is the number of a row and the row, and has the time as its prefix.
  private var record = new Array[Byte](256)

  context.addTaskCompletionListener[Unit](_ => deleteAll())

  /** The rows in order, in groups of bounded size. It consumes the input first. The files are deleted after the last
    * row, because a task may have many large panes, or at the end of the task.
    */
  def sort(rows: Iterator[CollectedRows]): Iterator[CollectedRows] = {
    var buffer = new CollectedRows(width)
    rows.foreach { some =>
      buffer.addAll(some)
      if (buffer.isLarge) {
        add(buffer)
        buffer = new CollectedRows(width)
      }
    }
    if (buffer.size > 0) add(buffer)
    while (files.length > MostFiles) mergeLast()
    new Groups(new Merge(files.map(_.read())))
  }

  private def add(rows: CollectedRows): Unit = {
    val file = new SortedFile(level = 0, rows.size)
    rows.order(byTime).foreach { at =>
      val row = rows.row(at)
      val length = NumberBytes + row.getSizeInBytes
      if (record.length < length) record = new Array[Byte](length * 2)
      Platform.putLong(record, Platform.BYTE_ARRAY_OFFSET, rows.number(at))
      row.writeToMemory(record, Platform.BYTE_ARRAY_OFFSET + NumberBytes)
      file.write(record, Platform.BYTE_ARRAY_OFFSET, length, if (byTime) rows.time(at) else 0L)
    }
    file.close()
    files += file
    // Levels only decrease.
    while (files.length >= MostFiles && files(files.length - MostFiles).level == files.last.level) mergeLast()
  }

  private def mergeLast(): Unit = {
    val merged = files.takeRight(MostFiles)
    val file = new SortedFile(merged.head.level + 1, merged.map(_.count).sum)
    val rows = new Merge(merged.map(_.read()))
    while (rows.hasNext) {
      val row = rows.next()
      file.write(row.getBaseObject, row.getBaseOffset, row.getRecordLength, row.getKeyPrefix)
    }
    file.close()
    files.dropRightInPlace(MostFiles)
    merged.foreach(_.delete())
    files += file
  }

  private def deleteAll(): Unit = {
    files.foreach(_.delete())
    files.clear()
  }

  /** Sorted records in a local file, compressed and encrypted like those that Spark spills. */
  private final class SortedFile(val level: Int, val count: Int) {
    private val metrics = new ShuffleWriteMetrics
    private val writer = new UnsafeSorterSpillWriter(env.blockManager, FileBuffer, metrics, count)

    def write(base: Object, offset: Long, length: Int, prefix: Long): Unit = writer.write(base, offset, length, prefix)

    def close(): Unit = {
      writer.close()
      context.taskMetrics().incDiskBytesSpilled(metrics.bytesWritten)
    }

    def read(): UnsafeSorterSpillReader = writer.getReader(env.serializerManager)

    def delete(): Unit = {
      writer.getFile.delete()
      ()
    }
  }

  /** The records as rows. */
  private final class Groups(records: Merge) extends Iterator[CollectedRows] {
    override def hasNext: Boolean = records.hasNext || {
      deleteAll()
      false
    }

    override def next(): CollectedRows = {
      val group = new CollectedRows(width)
      while (group.size < MostRows && group.bytes < MostBytes && records.hasNext) {
        val next = records.next()
        val bytes = new Array[Byte](next.getRecordLength - NumberBytes)
        val from = next.getBaseOffset + NumberBytes
        Platform.copyMemory(next.getBaseObject, from, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length.toLong)
        val row = new UnsafeRow(width)
        row.pointTo(bytes, bytes.length)
        group.add(numberOf(next), next.getKeyPrefix, row)
      }
      group
    }
  }
}

private object RowSorter {
  private final val MostFiles = 16
  private final val FileBuffer = 32 << 10
  private final val NumberBytes = 8
  private final val MostRows = 1024
  private final val MostBytes = 1L << 20

  private def numberOf(record: UnsafeSorterSpillReader): Long =
    Platform.getLong(record.getBaseObject, record.getBaseOffset)

  private val byPrefixAndNumber: Ordering[UnsafeSorterSpillReader] = (one, other) => {
    val byPrefix = java.lang.Long.compare(one.getKeyPrefix, other.getKeyPrefix)
    if (byPrefix != 0) byPrefix else java.lang.Long.compare(numberOf(one), numberOf(other))
  }

  /** The records of sorted files in order. A record is valid until the next one. */
  private final class Merge(files: Iterable[UnsafeSorterSpillReader]) extends Iterator[UnsafeSorterSpillReader] {
    private val heads = new java.util.PriorityQueue[UnsafeSorterSpillReader](byPrefixAndNumber)
    private var current: Option[UnsafeSorterSpillReader] = None

    files.foreach(advance)

    private def advance(file: UnsafeSorterSpillReader): Unit = if (file.hasNext) {
      file.loadNext()
      heads.add(file)
      ()
    }

    override def hasNext: Boolean = {
      current.foreach(advance)
      current = None
      !heads.isEmpty
    }

    override def next(): UnsafeSorterSpillReader = {
      if (!hasNext) throw new NoSuchElementException("no more records")
      val head = heads.poll()
      current = Some(head)
      head
    }
  }
}
