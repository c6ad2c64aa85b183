package org.apache.spark.sql.mullion.exec

import org.apache.spark.sql.mullion.shim.SparkLineShim

/** The facts of a batch for a branch, a window between two stages.
  *
  * @param info
  *   the location of the state
  * @param since
  *   the batch in which it begins
  * @param lateEventsMs
  *   the watermark of the previous batch
  * @param evictionMs
  *   that of this batch
  */
final case class BranchBatch(
    info: SparkLineShim.StateInfo,
    since: Long,
    batchTimestampMs: Long,
    lateEventsMs: Long,
    evictionMs: Long
)
