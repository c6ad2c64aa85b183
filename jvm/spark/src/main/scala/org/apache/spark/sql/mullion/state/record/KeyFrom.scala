package org.apache.spark.sql.mullion.state.record

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}

/** The start keys of scans over an ordered family: the first time, and nulls. */
private[state] final class KeyFrom(spec: FamilySpec) {
  private val row = InternalRow.fromSeq(Seq.fill[Any](spec.key.length)(None.orNull))
  private val projection = UnsafeProjection.create(spec.key.map(_.dataType).toArray)

  spec.times.drop(1).foreach(row.update(_, Long.MinValue))

  def apply(first: Long): UnsafeRow = {
    row.update(spec.times.head, first)
    projection(row)
  }
}
