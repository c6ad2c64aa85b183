package org.apache.spark.sql.mullion.exec.panes

import org.apache.spark.sql.catalyst.expressions.Attribute

/** Where the columns of partial rows stand, and of the rows' times and gaps among those that are put aside.
  *
  * {{{
  *   keys ...  slice  [marked]  [gap]  [start]  buffers ...  [first  last]  [rows]
  * }}}
  */
private[exec] final class PartialLayout(program: PaneProgram) {
  import program.{keys, partial}

  /** The slice that a row belongs to; of a row put aside, its time. */
  val slice: Int = keys.length

  /** True if its pane is a reopened one; of sessions, whether it may be late. */
  val marked: Option[Int] = program.marked.map(at)

  /** The gap that it brings. */
  val gap: Option[Int] = program.gap.map(at)

  /** The same of a row put aside, which has no marks. */
  val gapAside: Int = slice + 1

  /** The first of the functions' buffers. */
  val buffers: Int = program.grouping.length

  /** The first time of its rows, of sessions. */
  val first: Int = partial.length - program.extras.length

  /** The last time of its rows, of sessions. */
  val last: Int = first + 1

  /** How many rows are in it, if it says so. */
  val rows: Option[Int] = program.rowsCount.map(at)

  private def at(column: Attribute): Int = partial.indexWhere(_.exprId == column.exprId)
}
