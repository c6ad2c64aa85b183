package org.apache.spark.sql.mullion.operator.assign

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.shim.{SparkVersionShim, SpillLimits}

/** Rows that bypass an aggregate. Late rows are emitted unchanged, but an aggregate would consume them; a second branch
  * of the plan would read the source twice. The node below the aggregate therefore puts them aside, and a node above
  * it, in the same task, emits them once the aggregate has read all its input.
  *
  * {{{
  *   AssignSlices ---> partial aggregate ---> TakeUpLateRows
  *        |                                        ^
  *        +----------------- SideRows -------------+
  * }}}
  *
  * They spill to disk when they are many.
  */
private[operator] final class SideRows(limits: SpillLimits) {
  private val rows = SparkVersionShim.spillable(limits)

  def add(row: UnsafeRow): Unit = rows.add(row)

  def iterator: Iterator[UnsafeRow] = rows.generateIterator()
}

private[operator] object SideRows {

  private val aside = new ConcurrentHashMap[(Long, Int, String), SideRows]()

  /** The rows that node `id` put aside in this task, of one partition: under a `coalesce` a task processes several, one
    * after another.
    */
  def of(partition: Int, id: String, limits: SpillLimits): SideRows = {
    val task = TaskContext.get()
    val key = (task.taskAttemptId(), partition, id)
    aside.computeIfAbsent(
      key,
      _ => {
        task.addTaskCompletionListener[Unit](_ => { aside.remove(key); () })
        new SideRows(limits)
      }
    )
  }
}
