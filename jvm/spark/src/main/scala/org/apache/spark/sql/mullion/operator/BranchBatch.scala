package org.apache.spark.sql.mullion.operator

import org.apache.spark.sql.mullion.shim.SparkVersionShim

/** The facts of a batch for a branch, a window between two stages.
  *
  * @param name
  *   of the window
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
    name: String,
    info: SparkVersionShim.StateInfo,
    since: Long,
    batchTimestampMs: Long,
    lateEventsMs: Long,
    evictionMs: Long
)
