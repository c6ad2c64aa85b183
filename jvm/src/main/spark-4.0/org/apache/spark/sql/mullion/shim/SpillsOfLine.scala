package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray
import org.apache.spark.sql.internal.SQLConf

/** Rows that go to disk: 4.0, which counts rows alone. */
private[shim] trait SpillsOfLine {

  /** A list of rows that spills as Spark's window functions do: they too hold rows of the input, whole. */
  def spillable(limits: SpillLimits): ExternalAppendOnlyUnsafeRowArray =
    new ExternalAppendOnlyUnsafeRowArray(limits.rowsInMemory, limits.rowsToSpill)

  def spillLimits(conf: SQLConf): SpillLimits = SpillLimits(
    conf.windowExecBufferInMemoryThreshold,
    Long.MaxValue,
    conf.windowExecBufferSpillThreshold,
    Long.MaxValue
  )
}
