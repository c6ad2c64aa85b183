package org.apache.spark.sql.mullion.exec

import org.apache.spark.sql.mullion.shim.SparkLineShim

/** What is known of a batch to a branch, a window between two stages.
  *
  * @param info
  *   where the state is
  * @param since
  *   the batch in which it begins
  * @param lateEventsMs
  *   the watermark of the batch before
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
