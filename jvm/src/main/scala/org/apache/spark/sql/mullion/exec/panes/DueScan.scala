package org.apache.spark.sql.mullion.exec.panes

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.mullion.state.records.FamilyScan
import org.apache.spark.sql.types.{BooleanType, StructType}

/** Goes through the records of an ordered family from the start of a scan, up to the first that is not due. */
private[exec] abstract class DueScan(scan: FamilyScan) extends Iterator[InternalRow] {
  private var firings: Iterator[InternalRow] = Iterator.empty
  private var done = false

  protected def isDue(key: UnsafeRow): Boolean

  /** What a due record gives; it stands until this is used up. */
  protected def fire(key: UnsafeRow, value: UnsafeRow): Iterator[InternalRow]

  /** Called when every record was due. */
  protected def exhausted(): Unit = ()

  override def hasNext: Boolean = {
    while (!done && !firings.hasNext) {
      if (!scan.hasNext) { exhausted(); finish() }
      else {
        val record = scan.next()
        if (isDue(record.key)) firings = fire(record.key, record.value) else finish()
      }
    }
    !done
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("no record is due")
    firings.next()
  }

  private def finish(): Unit = { done = true; scan.close() }
}

/** Records that are all key: their value says nothing. */
private[exec] object KeyOnly {
  val schema: StructType = new StructType().add("present", BooleanType, nullable = false)

  val value: UnsafeRow = UnsafeProjection.create(schema)(InternalRow(true)).copy()
}
