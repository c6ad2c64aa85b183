package org.apache.spark.sql.mullion.exec

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.{SparkLineShim, SpillLimits}

/** Rows that go round an aggregate. Late rows come out whole, and an aggregate would swallow them; a second branch of
  * the plan would read the source twice. So the node below the aggregate puts them aside, and a node above it, in the
  * same task, takes them up again once the aggregate has read all its input.
  *
  * {{{
  *   AssignSlices ---> partial aggregate ---> TakeUpLateRows
  *        |                                        ^
  *        +----------------- SideRows -------------+
  * }}}
  *
  * They spill to disk when they are many.
  */
private[exec] final class SideRows(limits: SpillLimits) {
  private val rows = SparkLineShim.spillable(limits)

  def add(row: UnsafeRow): Unit = rows.add(row)

  def iterator: Iterator[UnsafeRow] = rows.generateIterator()
}

private[exec] object SideRows {

  private val ofTasks = new ConcurrentHashMap[(Long, String), SideRows]()

  /** The rows put aside by the node `id` in this task. */
  def ofTask(id: String, limits: SpillLimits): SideRows = {
    val task = TaskContext.get()
    val key = (task.taskAttemptId(), id)
    ofTasks.computeIfAbsent(
      key,
      _ => {
        task.addTaskCompletionListener[Unit](_ => { ofTasks.remove(key); () })
        new SideRows(limits)
      }
    )
  }
}
