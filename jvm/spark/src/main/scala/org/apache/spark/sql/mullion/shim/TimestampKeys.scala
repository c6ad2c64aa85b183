package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{
  KeyStateEncoderSpec,
  StateStore,
  StateStoreIterator,
  UnsafeRowPair
}
import org.apache.spark.sql.types.StructType

/** Spark's encoders of keys that end with a time, in the Spark versions that have them. */
trait TimestampKeys {

  /** Keys in order of their last column, a BIGINT, among those that agree in the others. */
  def withinKey(key: StructType): KeyStateEncoderSpec

  /** Keys in order of their last column, a BIGINT, as an 8-byte prefix; the range encoder needs forty bytes. */
  def byLast(key: StructType): KeyStateEncoderSpec

  /** Records from `from` to before `until`, in order. */
  def scan(store: StateStore, from: UnsafeRow, until: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair]
}
