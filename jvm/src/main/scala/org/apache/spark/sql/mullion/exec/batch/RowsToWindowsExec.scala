package org.apache.spark.sql.mullion.exec.batch

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan

import dev.mullion.windows.rules.AroundRules

/** On a batch DataFrame: gives each partial row to every window about a row of its key that holds it. The partial rows
  * of a key come in order of their time, and those that windows still to come can hold are kept.
  *
  * @param slice
  *   the time of a partial row
  * @param start
  *   the number of the window, the time of its own row, which takes its place
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
      // The rows of the key that the next one's window may hold, or whose window it may be in.
      val kept = mutable.ArrayDeque.empty[UnsafeRow]
      def time(row: InternalRow) = row.getLong(timeAt)
      def in(row: InternalRow, window: Long) = {
        starts.update(0, window)
        project(both(row, starts))
      }
      rows.flatMap { row =>
        val rowKey = keyOf(row)
        if (!current.contains(rowKey)) {
          current = Some(rowKey.copy())
          kept.clear()
        }
        // Sorted rows of one key and time are one partial row of each map task: windows are told apart by their time.
        val here = row.asInstanceOf[UnsafeRow].copy()
        val now = time(here)
        while (kept.headOption.exists(old => pane.lastSlice(time(old)) < now && time(old) < pane.firstSlice(now)))
          kept.removeHead()
        val isFirst = !kept.lastOption.exists(time(_) == now)
        val earlier = kept.toVector
        kept += here
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
