package org.apache.spark.sql.mullion.pyfunction.branch

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.mullion.shim.{PythonFrames, SparkVersionShim, SpillLimits}
import org.apache.spark.sql.types.{BinaryType, DataType}

/** The output of a function in one task, by target: the function emits frames one after another, and frames whose
  * target is not being read are buffered, on disk if they are large.
  *
  * {{{
  *   frames   2 1 1 0 2 1          rows(1) reads to the end and returns 1 1 1; 0 and 2 2 are buffered
  * }}}
  *
  * @param frames
  *   rows of a number and an Arrow stream
  * @param targets
  *   the number of targets, from 0
  */
private[pyfunction] final class RoutedRows(
    frames: Iterator[InternalRow],
    targets: Int,
    limits: SpillLimits,
    context: TaskContext
) {
  private val waiting = Array.fill(targets)(SparkVersionShim.spillable(limits))
  private val toRow = UnsafeProjection.create(Array[DataType](BinaryType))

  /** The rows for a target. Called once for each. */
  def rows(target: Int, output: Seq[Attribute]): Iterator[InternalRow] = {
    // Rows of Arrow are views of its vectors, and may contain nulls that the schema excludes.
    val project = UnsafeProjection.create(output.map(_.dataType).toArray)
    PythonFrames.decode(streams(target), context).map(project)
  }

  private def streams(target: Int): Iterator[Array[Byte]] = {
    val buffered: Iterator[UnsafeRow] = waiting(target).generateIterator()
    buffered.map(_.getBinary(0)) ++ new Iterator[Array[Byte]] {
      private var pending = Option.empty[Array[Byte]]

      override def hasNext: Boolean = {
        while (pending.isEmpty && frames.hasNext) {
          val frame = frames.next()
          val (kind, stream) = (frame.getInt(0), frame.getBinary(1))
          if (kind == target) pending = Some(stream) else waiting(kind).add(toRow(InternalRow(stream)))
        }
        pending.isDefined
      }

      override def next(): Array[Byte] = {
        if (!hasNext) throw new NoSuchElementException(s"no more rows for $target")
        val stream = pending.get
        pending = None
        stream
      }
    }
  }
}

private[pyfunction] object RoutedRows {
  private val ofTasks = new ConcurrentHashMap[(String, Long), RoutedRows]()

  /** Registers the rows for the windows of these stages, until the end of the task. */
  def register(stages: String, context: TaskContext, rows: RoutedRows): Unit = {
    val key = (stages, context.taskAttemptId())
    context.addTaskCompletionListener[Unit] { _ => ofTasks.remove(key); () }
    ofTasks.put(key, rows)
    ()
  }

  def ofTask(stages: String, context: TaskContext): RoutedRows =
    Option(ofTasks.get((stages, context.taskAttemptId())))
      .getOrElse(throw new IllegalStateException(s"the first of the stages $stages does not run in this task"))
}
