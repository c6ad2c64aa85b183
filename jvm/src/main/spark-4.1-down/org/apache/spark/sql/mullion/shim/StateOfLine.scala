package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._

/** What state stores can do: up to 4.1. */
private[shim] trait StateOfLine {

  /** Keys that end with a time, if this line has encoders for them. */
  def timestampKeys: Option[TimestampKeys] = None

  /** Records from `from` on, in order; all of them where that is found no sooner. Here a scan begins with the first:
    * what is due is, and what was due before is gone.
    */
  def scanFrom(store: StateStore, from: Option[UnsafeRow], family: String): StateStoreIterator[UnsafeRowPair] =
    store.iterator(family)

  /** True if state can begin with another version than the first. */
  def beginsAnywhere: Boolean = false

  /** A store without any record, that makes a version of its own when it is committed, in the place after `version`;
    * here there is one for the first version alone.
    */
  def emptyStore(provider: StateStoreProvider, version: Long): Option[StateStore] =
    Option.when(version == 0)(provider.getStore(0, None))

  /** True if many keys are looked up sooner at once than one by one. */
  def findsManyAtOnce: Boolean = false

  def findMany(store: StateStore, keys: Array[UnsafeRow], family: String): Iterator[UnsafeRow] =
    keys.iterator.map(store.get(_, family))
}
