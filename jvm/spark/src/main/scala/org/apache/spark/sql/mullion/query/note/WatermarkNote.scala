package org.apache.spark.sql.mullion.query.note

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/** The watermark after a batch that [[Recovery]] has emptied.
  *
  * {{{
  *   batch       ..  S   ..  N+1             N+2
  *   watermark       w0      w0, then w1     w1      S left w1; N+1 runs again with the watermark of S, and closes
  *                                                   nothing, because sinks may skip its output
  * }}}
  *
  * A batch without rows would leave the watermark unchanged, and rows that were late after S would be on time in N+2.
  *
  * @param watermarkMs
  *   in milliseconds
  */
private[mullion] final case class WatermarkNote(batch: Long, watermarkMs: Long) {

  /** Sets Spark's own watermark, as if rows of that time had arrived, in each stream of the query: none is behind the
    * point that all had reached.
    */
  def follow(query: StreamExecution): Unit = query.lastExecution.executedPlan.foreach {
    case node: EventTimeWatermarkExec => node.eventTimeStats.add(watermarkMs + node.delayMs)
    case _                            =>
  }

  def write(files: CheckpointFileManager, home: Path): Unit = WatermarkNote.file.write(files, home, batch, watermarkMs)
}

private[mullion] object WatermarkNote {
  private val file = new BatchNote("mullion-watermark", "mullion watermark 1")

  /** The note of a checkpoint's last recovery, if any. */
  def read(files: CheckpointFileManager, home: Path): Option[WatermarkNote] =
    file.read(files, home).map { case (batch, watermarkMs) => WatermarkNote(batch, watermarkMs) }

  def delete(files: CheckpointFileManager, home: Path): Unit = file.delete(files, home)
}
