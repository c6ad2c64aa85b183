package org.apache.spark.sql.mullion.query

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/** Where the watermark is to stand after a batch that [[Recovery]] has done again with nothing in it.
  *
  * {{{
  *   batch       ..  S   ..  N+1             N+2
  *   watermark       w0      w0, then w1     w1      S left w1; N+1 is done again with the watermark of S, and has
  *                                                   nothing to close, for sinks may leave out what comes in it
  * }}}
  *
  * A batch without rows would leave the watermark where it was, and what was late after S would be in time in N+2.
  *
  * @param watermarkMs
  *   in milliseconds
  */
private[mullion] final case class WatermarkNote(batch: Long, watermarkMs: Long) {

  /** Puts Spark's own watermark there, as if rows of that time had come: in each stream of the query, for none is
    * behind where all of them were.
    */
  def follow(query: StreamExecution): Unit = query.lastExecution.executedPlan.foreach {
    case node: EventTimeWatermarkExec => node.eventTimeStats.add(watermarkMs + node.delayMs)
    case _                            =>
  }

  def write(files: CheckpointFileManager, home: Path): Unit = WatermarkNote.file.write(files, home, batch, watermarkMs)
}

private[mullion] object WatermarkNote {
  private val file = new BatchNote("mullion-watermark", "mullion watermark 1")

  /** What the last recovery of a checkpoint noted, if it did. */
  def read(files: CheckpointFileManager, home: Path): Option[WatermarkNote] =
    file.read(files, home).map { case (batch, watermarkMs) => WatermarkNote(batch, watermarkMs) }

  def delete(files: CheckpointFileManager, home: Path): Unit = file.delete(files, home)
}
