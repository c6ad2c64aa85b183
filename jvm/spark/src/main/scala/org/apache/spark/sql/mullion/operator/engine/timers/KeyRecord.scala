package org.apache.spark.sql.mullion.operator.engine.timers

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.mullion.operator.engine.PaneProgram
import org.apache.spark.sql.mullion.state.record.{BorrowedRow, FamilySpec, RecordOrder}
import org.apache.spark.sql.types.{BinaryType, LongType, StructField, StructType}

/** The contents of a key's record: the close time of its next pane, its panes, and a third column that depends on the
  * kind of window and may be null.
  */
private[operator] object KeyRecord {
  private val dueAt = 0
  private val panesAt = 1
  private val besideAt = 2

  /** @param beside
    *   the name of the third column
    */
  def family(program: PaneProgram, beside: String): FamilySpec = FamilySpec(
    "keys",
    key = StructType(program.keyFields),
    value = StructType(
      Seq(
        StructField("due", LongType, nullable = false),
        StructField("panes", BinaryType, nullable = false),
        StructField(beside, BinaryType)
      )
    ),
    RecordOrder.Unordered
  )

  def due(record: BorrowedRow): Long = record.getLong(dueAt)

  def panes(record: BorrowedRow): Array[Byte] = record.getBinary(panesAt)

  def beside(record: BorrowedRow): Option[Array[Byte]] =
    Option.unless(record.untilNextCall.isNullAt(besideAt))(record.getBinary(besideAt))

  /** Builds records in a reused row. */
  final class Writer {
    private val row = new UnsafeRowWriter(3)

    def apply(due: Long, panes: Array[Byte], beside: Array[Byte]): UnsafeRow = {
      row.reset()
      row.zeroOutNullBytes()
      row.write(dueAt, due)
      row.write(panesAt, panes)
      if (beside eq null) row.setNullAt(besideAt) else row.write(besideAt, beside)
      row.getRow
    }
  }
}
