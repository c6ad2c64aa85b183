package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.execution.ExternalAppendOnlyUnsafeRowArray
import org.apache.spark.sql.internal.SQLConf

/** Rows that go to disk: 4.1 and later, which count bytes too. */
private[shim] trait SpillsOfLine {

  /** A list of rows that spills as Spark's window functions do: they too hold rows of the input, whole. */
  def spillable(limits: SpillLimits): ExternalAppendOnlyUnsafeRowArray =
    new ExternalAppendOnlyUnsafeRowArray(
      limits.rowsInMemory,
      limits.bytesInMemory,
      limits.rowsToSpill,
      limits.bytesToSpill
    )

  def spillLimits(conf: SQLConf): SpillLimits = SpillLimits(
    conf.windowExecBufferInMemoryThreshold,
    conf.windowExecBufferSpillSizeThreshold,
    conf.windowExecBufferSpillThreshold,
    conf.windowExecBufferSpillSizeThreshold
  )
}
