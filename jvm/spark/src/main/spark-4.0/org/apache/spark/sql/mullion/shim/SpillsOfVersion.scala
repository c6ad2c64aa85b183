package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray
import org.apache.spark.sql.internal.SQLConf

/** Rows that spill to disk, for 4.0, which counts only rows. */
private[shim] trait SpillsOfVersion {

  /** A list of rows that spills like those of Spark's window functions, which also buffer input rows. */
  def spillable(limits: SpillLimits): ExternalAppendOnlyUnsafeRowArray =
    new ExternalAppendOnlyUnsafeRowArray(limits.rowsInMemory, limits.rowsToSpill)

  def spillLimits(conf: SQLConf): SpillLimits = SpillLimits(
    conf.windowExecBufferInMemoryThreshold,
    Long.MaxValue,
    conf.windowExecBufferSpillThreshold,
    Long.MaxValue
  )
}
