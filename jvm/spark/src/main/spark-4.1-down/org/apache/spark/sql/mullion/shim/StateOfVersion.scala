package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

/** The capabilities of state stores, up to 4.1. */
private[shim] trait StateOfVersion {

  /** Encoders for keys that end with a time, if this Spark version has them. */
  def timestampKeys: Option[TimestampKeys] = None

  /** Records from `from` on, in order, or all if skipping is not supported. Here scans begin with the first record;
    * earlier ones were due before and are gone.
    */
  def scanFrom(store: StateStore, from: Option[UnsafeRow], family: String): StateStoreIterator[UnsafeRowPair] =
    store.iterator(family)

  /** True if state can begin with another version than the first. */
  def beginsAnywhere: Boolean = false

  /** An empty store whose commit writes the version after `version`. Up to 4.1 only the first version can be written
    * like that.
    */
  def emptyStore(provider: StateStoreProvider, version: Long): Option[StateStore] =
    Option.when(version == 0)(provider.getStore(0, None))

  /** True if looking up many keys at once is faster. */
  def findsManyAtOnce: Boolean = false

  def findMany(store: StateStore, keys: Array[UnsafeRow], family: String): Iterator[UnsafeRow] =
    keys.iterator.map(store.get(_, family))
}
