package org.apache.spark.sql.mullion.pyfunction.keyed

import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, render}

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection}
import org.apache.spark.sql.mullion.pyfunction.agents.Folds
import org.apache.spark.sql.mullion.pyfunction.branch.{Firings, RoutedRows}
import org.apache.spark.sql.mullion.pyfunction.dataflow.FlowStage
import org.apache.spark.sql.mullion.pyfunction.state.{CallCounts, KeyedState, TimerClock}
import org.apache.spark.sql.mullion.shim.{BatchLimits, PythonFrames, SpillLimits}
import org.apache.spark.sql.types.StructType

import dev.mullion.MullionException

/** The work of one task of the stages in one batch.
  *
  * {{{
  *   input  ->  process  ->  rows for windows  ->  panes  ->  firings in order  ->  callbacks  ->  commit
  *                  |                                                                   |
  *                  +--- output ------------------------------------------------------ +-- output
  *                  |                                                                   |
  *                  +------------------------- KeyedState ----------------------------- +
  * }}}
  *
  * Frames to Python are numbered by content: -1 is the task, 0 are rows, and firings have the number of their window
  * and their kind. Frames from Python are numbered by target: 0 is output, and windows are from 1 on.
  *
  * @param layout
  *   the columns of the child
  * @param batch
  *   the number of the batch
  * @param eventUs
  *   the event clock of the batch, microseconds
  * @param wallUs
  *   its wall clock
  * @param spill
  *   for frames, which may each be large
  * @param rowSpill
  *   for rows
  */
final class KeyedFunctionTask(
    stages: KeyedFunctionStages,
    layout: Seq[Attribute],
    process: PythonFrames,
    callbacks: Option[PythonFrames],
    batch: Long,
    val eventUs: Long,
    val wallUs: Long,
    limits: BatchLimits,
    spill: SpillLimits,
    rowSpill: SpillLimits
) extends Serializable {
  import KeyedFunctionTask._

  /** The output of a partition. `finish` is called after all functions have ended.
    *
    * @param panes
    *   computes the panes of a window, by its index
    */
  def run(
      partition: Int,
      input: Iterator[InternalRow],
      state: KeyedState,
      panes: Int => Iterator[InternalRow],
      calls: CallCounts,
      context: TaskContext
  ): Iterator[InternalRow] = {
    val begins = stages.program.begins && partition == 0 && !state.hasTimers(TimerClock.Wall)
    val FlowStage.Left(made, left, isCalled) = stages.program match {
      case KeyedFunctionProgram.OfFlow(flow) =>
        new FlowStage(flow, layout, stages.input, stages.output, state, partition, wallUs).over(input, calls)
      case KeyedFunctionProgram.OfFolds(folds) =>
        val Folds.Left(left, called) =
          new Folds(folds, layout, stages.input, state, wallUs, rowSpill).over(input, begins, calls)
        FlowStage.Left(Iterator.empty, left, called)
      case _ =>
        val project = UnsafeProjection.create(stages.input, layout)
        FlowStage.Left(Iterator.empty, input.map(project(_)), begins || input.hasNext || state.isDue)
    }
    val frames =
      if (!isCalled) Iterator.empty
      else {
        calls.process += 1
        val rows = PythonFrames.encode(left, schemaOf(stages.input), limits).map(frame(Rows, _))
        called(process, partition, state, rows, context)
      }
    val windows = stages.panes.length
    val routed = new RoutedRows(frames, 1 + windows, spill, context)
    RoutedRows.register(stages.id, context, routed)
    val firings = new Firings(stages.panes, spill)
    stages.panes.indices.foreach(i => panes(i).foreach(firings.add(i, _)))
    // With windows in between, the input has been consumed by now; without, the function streams its rows.
    made ++ routed.rows(0, stages.output) ++ fired(partition, state, firings, calls, context)
  }

  private def fired(
      partition: Int,
      state: KeyedState,
      firings: Firings,
      calls: CallCounts,
      context: TaskContext
  ): Iterator[InternalRow] = callbacks.filter(_ => firings.nonEmpty).fold(Iterator.empty[InternalRow]) { function =>
    calls.callbacks += 1
    val firingFrames = firings.inOrder.flatMap { case (window, kind, rows) =>
      PythonFrames.encode(rows, schemaOf(stages.panes(window)), limits).map(frame(window * Firings.Kinds + kind, _))
    }
    new RoutedRows(called(function, partition, state, firingFrames, context), 1, spill, context).rows(0, stages.output)
  }

  /** Calls a function, and serves its state while it runs. */
  private def called(
      function: PythonFrames,
      partition: Int,
      state: KeyedState,
      frames: Iterator[InternalRow],
      context: TaskContext
  ): Iterator[InternalRow] = {
    val server = new StateServer(state, Some(context))
    // Runs before the store is released, because listeners run in reverse order.
    context.addTaskCompletionListener[Unit](_ => server.close())
    val taskJson = ("socket" -> server.path.toString) ~ ("shard" -> partition) ~ ("batch" -> batch) ~
      ("time" -> wallUs) ~ ("watermark" -> eventUs)
    val header = frame(Header, compact(render(taskJson)).getBytes(java.nio.charset.StandardCharsets.UTF_8))
    val results = explained(server)(function.run(partition, Iterator.single(header) ++ frames))
    new Iterator[InternalRow] {
      private var ended = false

      override def hasNext: Boolean = !ended && {
        val more = explained(server)(results.hasNext)
        if (!more) {
          ended = true
          if (!server.isFinished) throw new IllegalStateException("a function ended without its writes")
          server.close()
        }
        more
      }

      override def next(): InternalRow = explained(server)(results.next())
    }
  }
}

object KeyedFunctionTask {
  private val Header = -1
  private val Rows = 0

  private def frame(kind: Int, data: Array[Byte]): InternalRow = InternalRow(kind, data)

  private def schemaOf(columns: Seq[Attribute]): StructType =
    StructType(columns.map(c => org.apache.spark.sql.types.StructField(c.name, c.dataType, c.nullable)))

  /** An error of Python with the function's own report. */
  private def explained[T](server: StateServer)(body: => T): T =
    try body
    catch {
      case e: Throwable if PythonFrames.isOfPython(e) =>
        throw server.failure.fold(e) {
          case ours: MullionException if ours.getCause eq null =>
            new MullionException(ours.condition, ours.getMessage, Some(e))
          case failure => failure
        }
    }
}
