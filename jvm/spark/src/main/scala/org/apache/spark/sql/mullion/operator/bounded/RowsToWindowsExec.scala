package org.apache.spark.sql.mullion.operator.bounded

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan

import dev.mullion.windows.rules.AroundRules

/** On a batch DataFrame: copies each partial row to every window around a row of its key that contains it. The partial
  * rows of a key are in order of time, and rows within reach of later windows are buffered.
  *
  * @param slice
  *   the time of a partial row
  * @param start
  *   the number of the window, which is the time of its own row, in place of the slice
  */
case class RowsToWindowsExec(
    keys: Seq[Attribute],
    slice: Attribute,
    start: Attribute,
    rules: AroundRules,
    child: SparkPlan
) extends KeyInOrderExec {

  override protected def order: Attribute = slice

  override def output: Seq[Attribute] = child.output.map(a => if (a.exprId == slice.exprId) start else a)

  override def producedAttributes: AttributeSet = AttributeSet(start)

  override protected def doExecute(): RDD[InternalRow] = {
    val (input, from, key, columns) = (child.output, start, keys, output)
    val timeAt = input.indexWhere(_.exprId == slice.exprId)
    val pane = rules
    child.execute().mapPartitions { rows =>
      val keyOf = UnsafeProjection.create(key, input)
      val project = UnsafeProjection.create(columns, input :+ from)
      val starts = new GenericInternalRow(1)
      val both = new JoinedRow()
      var current = Option.empty[UnsafeRow]
      // The rows of the key within reach of the next window, or whose window may contain the next row.
      val recentRows = mutable.ArrayDeque.empty[UnsafeRow]
      def time(row: InternalRow) = row.getLong(timeAt)
      def in(row: InternalRow, window: Long) = {
        starts.update(0, window)
        project(both(row, starts))
      }
      rows.flatMap { row =>
        val rowKey = keyOf(row)
        if (!current.contains(rowKey)) {
          current = Some(rowKey.copy())
          recentRows.clear()
        }
        // Rows of one key and time are one partial row per map task: their time identifies a window.
        val here = row.asInstanceOf[UnsafeRow].copy()
        val now = time(here)
        while (recentRows.headOption.exists(old => pane.lastSlice(time(old)) < now && time(old) < pane.firstSlice(now)))
          recentRows.removeHead()
        val isFirst = !recentRows.lastOption.exists(time(_) == now)
        val earlier = recentRows.toVector
        recentRows += here
        val windows = earlier.map(time).distinct.filter(window => pane.lastSlice(window) >= now && window != now)
        val itsOwn =
          if (isFirst) earlier.iterator.filter(old => time(old) >= pane.firstSlice(now)).map(in(_, now))
          else Iterator.empty[InternalRow]
        itsOwn ++ (windows :+ now).iterator.map(in(here, _))
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): RowsToWindowsExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String = s"$nodeName ${rules.window.describe}"
}
