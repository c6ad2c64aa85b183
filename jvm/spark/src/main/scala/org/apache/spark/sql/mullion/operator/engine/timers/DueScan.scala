package org.apache.spark.sql.mullion.operator.engine.timers

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.mullion.operator.engine.Iterators
import org.apache.spark.sql.mullion.state.record.RemovingScan
import org.apache.spark.sql.types.{BooleanType, StructType}

/** Iterates over the records of an ordered family from the start of a scan, up to the first that is not due.
  *
  * {{{
  *   records   due   due   due   not due   ...
  *             fire  fire  fire  wait
  * }}}
  */
private[operator] abstract class DueScan(scan: RemovingScan) {
  protected def isDue(key: UnsafeRow): Boolean

  /** The firings of a due record. The next one is read after they have been consumed. */
  protected def fire(key: UnsafeRow, value: UnsafeRow): Iterator[InternalRow]

  /** Removes the record that fires. */
  protected def remove(): Unit = scan.remove()

  /** Called after all due records have fired.
    *
    * @param first
    *   the first record that is not due, if there is one
    */
  protected def rest(first: Option[UnsafeRow]): Unit

  /** The firings of the due records in turn. */
  def firing(): Iterator[InternalRow] = new Iterators.OfRecords(scan)({ record =>
    if (isDue(record.key.untilNextCall)) fire(record.key.untilNextCall, record.value.untilNextCall)
    else {
      rest(Some(record.key.untilNextCall))
      Iterators.OfRecords.enough
    }
  })(rest(None))
}

/** The value of records that consist of their key. */
private[operator] object KeyOnly {
  val schema: StructType = new StructType().add("present", BooleanType, nullable = false)

  val value: UnsafeRow = UnsafeProjection.create(schema)(InternalRow(true)).copy()
}
