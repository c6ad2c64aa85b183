package org.apache.spark.sql.mullion.operator.engine

import org.apache.spark.sql.catalyst.expressions.Attribute

/** The indexes of the columns of partial rows, and of the times and gaps of rows that are put aside.
  *
  * {{{
  *   keys ...  slice  [marked]  [gap]  [start]  buffers ...  [first  last]  [rows]
  * }}}
  */
private[operator] final class PartialLayout(program: PaneProgram) {
  import program.{keys, partial}

  /** The slice of a row; for a row put aside, its time. */
  val slice: Int = keys.length

  /** The mark of a reopened pane; for sessions, of a possibly late row. */
  val marked: Option[Int] = program.marked.map(at)

  /** The row's gap. */
  val gap: Option[Int] = program.gap.map(at)

  /** The gap of a row put aside, which has no marks. */
  val gapAside: Int = slice + 1

  /** The first of the functions' buffers. */
  val buffers: Int = program.grouping.length

  /** The first time of its rows, for sessions. */
  val first: Int = partial.length - program.extras.length

  /** The last time of its rows, for sessions. */
  val last: Int = first + 1

  /** Its number of rows, if it has one. */
  val rows: Option[Int] = program.rowsCount.map(at)

  private def at(column: Attribute): Int = partial.indexWhere(_.exprId == column.exprId)
}
