package org.apache.spark.sql.mullion.operator.engine.accumulators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.JoinedRow

/** Two rows side by side, one mostly of numbers.
  *
  * All of Spark uses `JoinedRow` with rows of many classes, so its reads are megamorphic. The reads of this class are
  * for one row class and can be inlined.
  */
private[operator] final class JoinedNumbers extends JoinedRow {
  private var left = InternalRow.empty
  private var right = InternalRow.empty
  private var leftFields = 0

  override def apply(row1: InternalRow, row2: InternalRow): JoinedRow = {
    left = row1
    right = row2
    leftFields = row1.numFields
    super.apply(row1, row2)
  }

  override def isNullAt(i: Int): Boolean = if (i < leftFields) left.isNullAt(i) else right.isNullAt(i - leftFields)
  override def getInt(i: Int): Int = if (i < leftFields) left.getInt(i) else right.getInt(i - leftFields)
  override def getLong(i: Int): Long = if (i < leftFields) left.getLong(i) else right.getLong(i - leftFields)
  override def getDouble(i: Int): Double = if (i < leftFields) left.getDouble(i) else right.getDouble(i - leftFields)
}
