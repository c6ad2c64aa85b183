package org.apache.spark.sql.mullion.python

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.mullion.shim.{PythonFrames, SparkLineShim, SpillLimits}
import org.apache.spark.sql.types.{BinaryType, DataType}

/** What a function made in one task, by what it is for: frames come from it one after another, and those for whom
  * nobody reads yet wait, on disk where they are large.
  *
  * {{{
  *   frames   2 1 1 0 2 1          rows(1) reads to the end and gives 1 1 1; 0 and 2 2 wait
  * }}}
  *
  * @param frames
  *   rows of a number and an Arrow stream
  * @param targets
  *   how many numbers there are, from 0
  */
private[python] final class RoutedRows(
    frames: Iterator[InternalRow],
    targets: Int,
    limits: SpillLimits,
    context: TaskContext
) {
  private val waiting = Array.fill(targets)(SparkLineShim.spillable(limits))
  private val toRow = UnsafeProjection.create(Array[DataType](BinaryType))

  /** The rows for a target. Asked once for each. */
  def rows(target: Int, output: Seq[Attribute]): Iterator[InternalRow] = {
    // Rows of Arrow are views of its vectors, and nulls may stand where a schema says there are none.
    val project = UnsafeProjection.create(output.map(_.dataType).toArray)
    PythonFrames.decode(streams(target), context).map(project)
  }

  private def streams(target: Int): Iterator[Array[Byte]] = {
    val kept: Iterator[UnsafeRow] = waiting(target).generateIterator()
    kept.map(_.getBinary(0)) ++ new Iterator[Array[Byte]] {
      private var found = Option.empty[Array[Byte]]

      override def hasNext: Boolean = {
        while (found.isEmpty && frames.hasNext) {
          val frame = frames.next()
          val (kind, stream) = (frame.getInt(0), frame.getBinary(1))
          if (kind == target) found = Some(stream) else waiting(kind).add(toRow(InternalRow(stream)))
        }
        found.isDefined
      }

      override def next(): Array[Byte] = {
        if (!hasNext) throw new NoSuchElementException(s"no more rows for $target")
        val stream = found.get
        found = None
        stream
      }
    }
  }
}

private[python] object RoutedRows {
  private val ofTasks = new ConcurrentHashMap[(String, Long), RoutedRows]()

  /** Has the windows of these stages find their rows, as long as the task lasts. */
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
