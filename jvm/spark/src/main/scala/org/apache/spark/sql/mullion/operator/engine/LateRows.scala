package org.apache.spark.sql.mullion.operator.engine

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.operator.assign.SlicesAside
import org.apache.spark.sql.mullion.shim.SpillLimits

/** The output of a window's late rows.
  *
  * @param window
  *   for several windows in one operator, the column with a row's window, and this window's value
  * @param lateKey
  *   the columns that determine whether a row is late: see `PaneEngine.isLate`
  * @param slice
  *   the column with a row's slice, if it has one
  * @param mayBeOnTime
  *   whether the engine must confirm that rows with a slice are late, for sessions
  * @param columns
  *   the operator's output for a late row, over the columns of rows that were put aside
  * @param columnsAhead
  *   the same for a row that is too far ahead of the wall clock
  */
final case class LateProgram(
    window: Option[(Attribute, Int)],
    lateKey: Seq[Expression],
    slice: Attribute,
    mayBeOnTime: Boolean,
    columns: Seq[Expression],
    columnsAhead: Seq[Expression]
)

/** Emits the late rows of a partition, after its input, and the rows that are too far ahead of the wall clock.
  *
  * @param ahead
  *   the latest time of rows that are not, in microseconds
  * @param layout
  *   the columns of the rows put aside
  */
private[operator] final class LateRows(
    programs: Seq[LateProgram],
    id: String,
    layout: Seq[Attribute],
    limits: SpillLimits,
    ahead: Long
) extends Serializable {

  def rows(partition: Int, engine: PaneEngine): Iterator[InternalRow] = {
    lazy val aside = new SlicesAside.Side(id, limits).of(partition)
    programs.iterator.flatMap { program =>
      val output = UnsafeProjection.create(program.columns, layout)
      lazy val outputAhead = UnsafeProjection.create(program.columnsAhead, layout)
      lazy val lateKey = UnsafeProjection.create(program.lateKey, layout)
      val sliceAt = layout.indexWhere(_.exprId == program.slice.exprId)
      val number = program.window.fold(0)(_._2)
      val ownRows = program.window.fold[Iterator[UnsafeRow]](aside.iterator) { case (column, _) =>
        val at = layout.indexWhere(_.exprId == column.exprId)
        aside.iterator.filter(_.getInt(at) == number)
      }
      // For sessions the engine can now decide; rows without time are put aside, too.
      def isAhead(row: UnsafeRow) = ahead != Long.MaxValue && !row.isNullAt(sliceAt) && row.getLong(sliceAt) > ahead
      ownRows.flatMap { row =>
        if (isAhead(row)) Iterator.single(outputAhead(row))
        else if (!program.mayBeOnTime || row.isNullAt(sliceAt) || engine.part(number).isLate(lateKey(row)))
          Iterator.single(output(row))
        else Iterator.empty
      }
    }
  }
}
