package org.apache.spark.sql.mullion.exec.panes.keys

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.records.Family

/** The same rows, of which some hundreds are taken at once where state is in a store: what is known of their keys is
  * looked up together, and the store finds neighbours in one place.
  *
  * {{{
  *   in memory    row, look up, row, look up ...
  *   in a store   row row row ... look up all, row, row, row ...
  * }}}
  *
  * Of large rows fewer are taken: of each key the store makes two copies more while it looks.
  *
  * @param keyOf
  *   the record that a row will be added to
  */
private[exec] final class RowsAhead(input: Iterator[InternalRow], family: Family)(keyOf: InternalRow => UnsafeRow)
    extends Iterator[InternalRow] {
  private val rows = new Array[InternalRow](RowsAhead.AtOnce)
  private var taken = 0
  private var out = 0

  override def hasNext: Boolean = out < taken || input.hasNext

  override def next(): InternalRow =
    if (out == taken && !family.findsManyAtOnce) input.next()
    else {
      if (out == taken) take()
      out += 1
      rows(out - 1)
    }

  private def take(): Unit = {
    taken = 0
    out = 0
    var bytes = 0L
    val keys = new Array[UnsafeRow](rows.length)
    while (taken < rows.length && bytes < RowsAhead.MostBytes && input.hasNext) {
      val row = input.next().copy()
      rows(taken) = row
      keys(taken) = keyOf(row).copy()
      bytes += sizeOf(row) + keys(taken).getSizeInBytes
      taken += 1
    }
    family.expect(keys.take(taken))
  }

  private def sizeOf(row: InternalRow): Int = row match {
    case flat: UnsafeRow => flat.getSizeInBytes
    case _               => 0
  }
}

private object RowsAhead {
  private final val AtOnce = 512
  // A few rows of any size, and of small ones all.
  private final val MostBytes = 512L << 10
}
