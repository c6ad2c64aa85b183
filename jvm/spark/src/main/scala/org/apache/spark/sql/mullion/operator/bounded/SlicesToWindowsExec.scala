package org.apache.spark.sql.mullion.operator.bounded

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.mullion.shim.DescribedExec

import dev.mullion.windows.rules.AlignedRules

/** On a batch DataFrame: copies each partial row of a slice to every window that holds the slice, before the shuffle.
  * The number of such rows is that of slices with rows.
  *
  * @param start
  *   the start of a window; where slices are numbered its number, because windows that begin before time share a start
  */
case class SlicesToWindowsExec(slice: Attribute, start: Attribute, rules: AlignedRules, child: SparkPlan)
    extends UnaryExecNode
    with DescribedExec {

  override def output: Seq[Attribute] = child.output.map(a => if (a.exprId == slice.exprId) start else a)

  override def producedAttributes: AttributeSet = AttributeSet(start)

  override protected def doExecute(): RDD[InternalRow] = {
    val input = child.output
    val columns = input.map(a => if (a.exprId == slice.exprId) start else a)
    val sliceAt = input.indexWhere(_.exprId == slice.exprId)
    val (from, pane) = (start, rules)
    child.execute().mapPartitions { rows =>
      val starts = new GenericInternalRow(1)
      val both = new JoinedRow()
      val project = UnsafeProjection.create(columns, input :+ from)
      val grid = pane.grid
      rows.flatMap { row =>
        val slice = row.getLong(sliceAt)
        if (!pane.numbersSlices) {
          starts.update(0, slice)
          Iterator.single(project(both(row, starts)))
        } else
          Iterator.iterate(grid.firstWindow(slice))(_ + 1).takeWhile(_ <= grid.lastWindow(slice)).map { window =>
            starts.update(0, window)
            project(both(row, starts))
          }
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): SlicesToWindowsExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String = s"$nodeName ${rules.window.describe}"
}
