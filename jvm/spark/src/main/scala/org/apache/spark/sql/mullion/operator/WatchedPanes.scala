package org.apache.spark.sql.mullion.operator

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, BindReferences, Expression}
import org.apache.spark.sql.mullion.expressions.columns.PaneColumns
import org.apache.spark.sql.mullion.monitor.{ClosedPane, WatchedKeys}
import org.apache.spark.sql.mullion.operator.program.WindowProgram
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.windows.spec.TimeMath

/** Collects the panes of watched keys that close, from an operator's output rows.
  *
  * @param ids
  *   the keys' ids
  */
private[operator] final class WatchedPanes private (
    ids: Set[Long],
    id: Expression,
    windowAt: Int,
    isOfTime: Boolean,
    paneAt: Int,
    paneWidth: Int
) extends Serializable {

  /** The rows, which the caller must read to their end before it reads `closed`. */
  def collect(rows: Iterator[InternalRow], closed: mutable.Queue[ClosedPane]): Iterator[InternalRow] = rows.map { row =>
    val pane = row.getStruct(paneAt, paneWidth)
    if (pane.getUTF8String(PaneColumns.firingAt) == WatchedPanes.Close) {
      val key = id.eval(row).asInstanceOf[Long]
      if (ids(key)) {
        val window = row.getStruct(windowAt, 2)
        closed += ClosedPane(key, bound(window, 0), bound(window, 1), pane.getInt(PaneColumns.seqAt) + 1)
        if (closed.length > WatchedKeys.OfKey * ids.size) closed.dequeue()
      }
    }
    row
  }

  private def bound(window: InternalRow, at: Int): Long =
    if (isOfTime) TimeMath.toMillis(window.getLong(at)) else window.getLong(at)
}

private[operator] object WatchedPanes {
  private val Close = UTF8String.fromString("close")

  def apply(program: WindowProgram, ids: Set[Long]): WatchedPanes = {
    val output = program.output
    def at(column: Attribute) = output.indexWhere(_.exprId == column.exprId)
    new WatchedPanes(
      ids,
      BindReferences.bindReference(WatchedKeys.idOf(program.keys), output),
      at(program.window),
      program.window.dataType != PaneColumns.numbersType,
      at(program.pane),
      PaneColumns.paneType(program.rules.refinements.ids).length
    )
  }
}
