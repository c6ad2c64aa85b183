package org.apache.spark.sql.mullion.operator.engine.timers

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.record.Family

/** Prefetches rows, a few hundred at a time, if state is in a store: their keys are looked up together, and neighbours
  * are close together in the store.
  *
  * {{{
  *   in memory    row, look up, row, look up ...
  *   in a store   row row row ... look up all, row, row, row ...
  * }}}
  *
  * Fewer large rows are prefetched, because the store makes two more copies of each key during the lookup.
  *
  * @param keyOf
  *   the record to which a row will be added
  */
private[operator] final class PrefetchedRows(input: Iterator[InternalRow], family: Family)(
    keyOf: InternalRow => UnsafeRow
) extends Iterator[InternalRow] {
  private val rows = new Array[InternalRow](PrefetchedRows.AtOnce)
  private var consumed = 0
  private var out = 0

  override def hasNext: Boolean = out < consumed || input.hasNext

  override def next(): InternalRow =
    if (out == consumed && !family.findsManyAtOnce) input.next()
    else {
      if (out == consumed) take()
      out += 1
      rows(out - 1)
    }

  private def take(): Unit = {
    consumed = 0
    out = 0
    var bytes = 0L
    val keys = new Array[UnsafeRow](rows.length)
    while (consumed < rows.length && bytes < PrefetchedRows.MostBytes && input.hasNext) {
      val row = input.next().copy()
      rows(consumed) = row
      keys(consumed) = keyOf(row).copy()
      bytes += sizeOf(row) + keys(consumed).getSizeInBytes
      consumed += 1
    }
    family.expect(keys.take(consumed))
  }

  private def sizeOf(row: InternalRow): Int = row match {
    case flat: UnsafeRow => flat.getSizeInBytes
    case _               => 0
  }
}

private object PrefetchedRows {
  private final val AtOnce = 512
  // A few rows of any size, or the full number of small ones.
  private final val MostBytes = 512L << 10
}
