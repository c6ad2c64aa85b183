package org.apache.spark.sql.mullion.exec.panes

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.exec.assign.SlicesAside
import org.apache.spark.sql.mullion.shim.SpillLimits

/** How the late rows of one window come out.
  *
  * @param window
  *   of several windows in one operator, the column that says whose a row is, and what it says there
  * @param lateKey
  *   which rows are late together: see `PaneEngine.isLate`
  * @param slice
  *   the column with a row's slice, if it has one
  * @param mayBeOnTime
  *   whether rows that have a slice are late only if the engine says so: those of sessions
  * @param columns
  *   the operator's output, over the columns of rows that were put aside
  */
final case class LateProgram(
    window: Option[(Attribute, Int)],
    lateKey: Seq[Expression],
    slice: Attribute,
    mayBeOnTime: Boolean,
    columns: Seq[Expression]
)

/** Sends out the late rows of a partition, once its input is used up.
  *
  * @param layout
  *   the columns of the rows put aside
  */
private[exec] final class LateRows(programs: Seq[LateProgram], id: String, layout: Seq[Attribute], limits: SpillLimits)
    extends Serializable {

  def rows(partition: Int, engine: PaneEngine): Iterator[InternalRow] = {
    lazy val aside = new SlicesAside.Side(id, limits).of(partition)
    programs.iterator.flatMap { program =>
      val output = UnsafeProjection.create(program.columns, layout)
      lazy val lateKey = UnsafeProjection.create(program.lateKey, layout)
      val sliceAt = layout.indexWhere(_.exprId == program.slice.exprId)
      val number = program.window.fold(0)(_._2)
      val mine = program.window.fold[Iterator[UnsafeRow]](aside.iterator) { case (column, _) =>
        val at = layout.indexWhere(_.exprId == column.exprId)
        aside.iterator.filter(_.getInt(at) == number)
      }
      // Of sessions it is known by now which rows are late; those without time are put aside, too.
      val late = mine.filter { row =>
        !program.mayBeOnTime || row.isNullAt(sliceAt) || engine.part(number).isLate(lateKey(row))
      }
      late.map(output(_))
    }
  }
}
