package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** The capabilities of state stores, for 4.2 and later. */
private[shim] trait StateOfVersion {

  /** Encoders for keys that end with a time, if this Spark version has them. */
  def timestampKeys: Option[TimestampKeys] = Some(StateOfVersion.Timestamps)

  /** Records from `from` on, in order, or all if skipping is not supported. */
  def scanFrom(store: StateStore, from: Option[UnsafeRow], family: String): StateStoreIterator[UnsafeRowPair] =
    store.rangeScan(from, None, family)

  /** True if state can begin with another version than the first. */
  def beginsAnywhere: Boolean = true

  /** An empty store whose commit writes the version after `version`. */
  def emptyStore(provider: StateStoreProvider, version: Long): Option[StateStore] =
    Some(provider.getStore(version, None, forceSnapshotOnCommit = true, loadEmpty = true))

  /** True if looking up many keys at once is faster. */
  def findsManyAtOnce: Boolean = true

  def findMany(store: StateStore, keys: Array[UnsafeRow], family: String): Iterator[UnsafeRow] =
    store.multiGet(keys, family)
}

private object StateOfVersion {
  private object Timestamps extends TimestampKeys {
    override def withinKey(key: StructType): KeyStateEncoderSpec = TimestampAsPostfixKeyStateEncoderSpec(key)

    override def byLast(key: StructType): KeyStateEncoderSpec = TimestampAsPrefixKeyStateEncoderSpec(key)

    override def scan(
        store: StateStore,
        from: UnsafeRow,
        until: UnsafeRow,
        family: String
    ): StateStoreIterator[UnsafeRowPair] = store.rangeScan(Some(from), Some(until), family)
  }
}
