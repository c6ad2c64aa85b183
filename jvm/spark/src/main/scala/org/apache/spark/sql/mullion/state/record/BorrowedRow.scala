package org.apache.spark.sql.mullion.state.record

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** A row of state that is valid only until the next call on its partition, on any family or scan. The store then
  * overwrites its bytes.
  *
  * Read its columns at once, or `copy` it to keep it. It has no cost: at run time it is the row itself.
  *
  * @param untilNextCall
  *   the row itself, for a function that reads or changes it and returns before the next call; null if there is none
  */
private[mullion] final class BorrowedRow(val untilNextCall: UnsafeRow) extends AnyVal {

  /** True if there is no such record. */
  def isAbsent: Boolean = untilNextCall eq null

  /** A row that the caller owns. */
  def copy(): UnsafeRow = untilNextCall.copy()

  /** A copy, if there is such a record. */
  def copied: Option[UnsafeRow] = Option(untilNextCall).map(_.copy())

  def getLong(column: Int): Long = untilNextCall.getLong(column)

  def getBinary(column: Int): Array[Byte] = untilNextCall.getBinary(column)
}

private[mullion] object BorrowedRow {
  def apply(row: UnsafeRow): BorrowedRow = new BorrowedRow(row)
}
