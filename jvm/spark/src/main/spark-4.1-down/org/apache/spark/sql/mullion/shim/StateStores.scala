package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** Spark's RocksDB state provider, with wrapped stores. */
abstract class RocksDbProvider extends AttemptProvider {
  protected def around(store: StateStore): StateStore

  final override def getStore(version: Long, stateStoreCkptId: Option[String]): StateStore = {
    val store = super.getStore(version, stateStoreCkptId)
    nameVersion()
    around(store)
  }
}

/** A store that delegates to another. */
abstract class StoreAround(under: StateStore) extends StateStore {
  override def id: StateStoreId = under.id
  override def version: Long = under.version
  override def get(key: UnsafeRow, family: String): UnsafeRow = under.get(key, family)
  override def valuesIterator(key: UnsafeRow, family: String): Iterator[UnsafeRow] = under.valuesIterator(key, family)
  override def prefixScan(prefix: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    under.prefixScan(prefix, family)
  override def iterator(family: String): StateStoreIterator[UnsafeRowPair] = under.iterator(family)
  override def removeColFamilyIfExists(family: String): Boolean = under.removeColFamilyIfExists(family)
  override def createColFamilyIfAbsent(
      family: String,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useMultipleValuesPerKey: Boolean,
      isInternal: Boolean
  ): Unit = under.createColFamilyIfAbsent(
    family,
    keySchema,
    valueSchema,
    keyStateEncoderSpec,
    useMultipleValuesPerKey,
    isInternal
  )
  override def put(key: UnsafeRow, value: UnsafeRow, family: String): Unit = under.put(key, value, family)
  override def remove(key: UnsafeRow, family: String): Unit = under.remove(key, family)
  override def merge(key: UnsafeRow, value: UnsafeRow, family: String): Unit = under.merge(key, value, family)
  // Not all of these Spark versions have them.
  def putList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit = throw new UnsupportedOperationException
  def mergeList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit =
    throw new UnsupportedOperationException
  override def commit(): Long = under.commit()
  override def abort(): Unit = under.abort()
  override def hasCommitted: Boolean = under.hasCommitted
  override def metrics: StateStoreMetrics = under.metrics
  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo = under.getStateStoreCheckpointInfo()
}
