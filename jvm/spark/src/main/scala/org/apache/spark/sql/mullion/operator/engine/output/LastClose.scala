package org.apache.spark.sql.mullion.operator.engine.output

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.columns.PaneColumns
import org.apache.spark.sql.mullion.expressions.rows.Projections
import org.apache.spark.sql.types._

/** The values that a close takes from the close of the same key before it.
  *
  * {{{
  *   window        [0, 10)   [10, 20)   [20, 30)
  *   rows          3         0          2
  *   sum           7         null       5
  *   previous(sum) null      7          null        with `empty = "emit"`
  *   sum           7         7          5           with `empty = "forward"`
  * }}}
  *
  * The results of such a window end with the aggregates that `previous` names, and with the number of rows if empty
  * windows repeat values. The engine emits the values of the pane itself; [[LastCloseValues]] replaces them.
  *
  * @param forwards
  *   whether a pane without rows repeats all values; the last result is then the number of rows
  * @param previous
  *   the number of results before that which are replaced by their value in the close before
  */
final case class LastClose(forwards: Boolean, previous: Int) {
  private[mullion] def hidden: Int = previous + (if (forwards) 1 else 0)
}

/** Replaces values in the rows of closes, in order of the closes of a key.
  *
  * @param output
  *   the columns of the rows: keys, `window`, `pane`, results, and possibly `late_row`
  * @param keys
  *   the number of keys
  * @param results
  *   the number of results
  */
private[operator] final class LastCloseValues(output: Seq[Attribute], keys: Int, results: Int, rule: LastClose) {
  private val windowAt = keys
  private val paneAt = keys + 1
  private val firstResult = keys + 2
  private val values = results - rule.hidden
  private val previousAt = firstResult + values until firstResult + values + rule.previous
  private val rowsAt = firstResult + results - 1
  private val positions: Seq[Int] =
    if (rule.forwards) firstResult until firstResult + values + rule.previous else previousAt
  private val paneWidth = output(paneAt).dataType.asInstanceOf[StructType].length

  /** The schema of a record: the end of the closed pane, and the kept values. */
  val schema: StructType = LastCloseValues.schema(positions.map(output(_).dataType))

  private lazy val record = Projections(
    Literal(0L) +: positions.map(at => BoundReference(at, output(at).dataType, nullable = true))
  )
  private val both = new JoinedRow()
  private val none = new GenericInternalRow(schema.length)
  private lazy val withPrevious = replacing(previousAt)
  private lazy val withAll = replacing(positions)

  /** The row with the values at some places from a record. */
  private def replacing(places: Seq[Int]): UnsafeProjection = Projections(output.indices.map { at =>
    val from = if (places.contains(at)) output.length + 1 + positions.indexOf(at) else at
    BoundReference(from, output(at).dataType, nullable = true): Expression
  })

  def isClose(row: InternalRow): Boolean = firingOf(row) == Firing.Close

  private def firingOf(row: InternalRow) = row.getStruct(paneAt, paneWidth).getUTF8String(0)

  def endOf(row: InternalRow): Long = row.getStruct(windowAt, 2).getLong(PaneColumns.endAt)

  /** The output for a firing that is no close: the pane before may be open still. The result is valid until the next
    * call.
    */
  def open(row: InternalRow): InternalRow =
    if (rule.previous == 0 || firingOf(row) == Firing.Late) row else withPrevious(both(row, none))

  /** The output for a close. The result is valid until the next call.
    *
    * @param last
    *   the record of the close before; null for none
    */
  def close(row: InternalRow, last: UnsafeRow): InternalRow =
    if (last eq null) open(row)
    else if (repeats(row)) withAll(both(row, last))
    else if (rule.previous == 0) row
    else withPrevious(both(row, last))

  /** The record of a close, valid until the next call.
    *
    * @param last
    *   the record of the close before, which may be changed; null for none
    */
  def recordOf(row: InternalRow, last: UnsafeRow): UnsafeRow = {
    val next = if ((last ne null) && repeats(row)) last else record(row)
    next.setLong(LastCloseValues.endAt, endOf(row))
    next
  }

  private def repeats(row: InternalRow) = rule.forwards && row.getLong(rowsAt) == 0L
}

private[operator] object LastCloseValues {
  private[output] val endAt = 0

  /** @param kept
    *   the types of the kept values
    */
  def schema(kept: Seq[DataType]): StructType = StructType(
    StructField("end", LongType, nullable = false) +: kept.zipWithIndex.map { case (t, i) =>
      StructField(s"value$i", t)
    }
  )
}
