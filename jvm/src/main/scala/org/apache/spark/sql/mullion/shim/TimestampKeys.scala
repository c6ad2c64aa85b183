package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{
  KeyStateEncoderSpec,
  StateStore,
  StateStoreIterator,
  UnsafeRowPair
}
import org.apache.spark.sql.types.StructType

/** Spark's encoders of keys that end with a time, on the lines that have them. */
trait TimestampKeys {

  /** Keys in order of their last column, a BIGINT, among those that agree in the others. */
  def withinKey(key: StructType): KeyStateEncoderSpec

  /** Keys in order of their last column, a BIGINT: eight bytes before the others, where the range encoder takes forty.
    */
  def byLast(key: StructType): KeyStateEncoderSpec

  /** Records from `from` to before `until`, in order. */
  def scan(store: StateStore, from: UnsafeRow, until: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair]
}
