package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** Spark's RocksDB state provider, with wrapped stores. */
abstract class RocksDbProvider extends AttemptProvider {
  protected def around(store: StateStore): StateStore

  final override def getStore(
      version: Long,
      stateStoreCkptId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore = {
    val store = super.getStore(version, stateStoreCkptId, forceSnapshotOnCommit, loadEmpty)
    nameVersion()
    around(store)
  }
}

/** A store that delegates to another. */
abstract class StoreAround(under: StateStore) extends StateStore {
  override def id: StateStoreId = under.id
  override def version: Long = under.version
  override def get(key: UnsafeRow, family: String): UnsafeRow = under.get(key, family)
  override def multiGet(keys: Array[UnsafeRow], family: String): Iterator[UnsafeRow] = under.multiGet(keys, family)
  override def keyExists(key: UnsafeRow, family: String): Boolean = under.keyExists(key, family)
  override def valuesIterator(key: UnsafeRow, family: String): Iterator[UnsafeRow] = under.valuesIterator(key, family)
  override def prefixScan(prefix: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    under.prefixScan(prefix, family)
  override def prefixScanWithMultiValues(prefix: UnsafeRow, family: String): StateStoreIterator[UnsafeRowPair] =
    under.prefixScanWithMultiValues(prefix, family)
  override def rangeScan(
      from: Option[UnsafeRow],
      until: Option[UnsafeRow],
      family: String
  ): StateStoreIterator[UnsafeRowPair] = under.rangeScan(from, until, family)
  override def rangeScanWithMultiValues(
      from: Option[UnsafeRow],
      until: Option[UnsafeRow],
      family: String
  ): StateStoreIterator[UnsafeRowPair] = under.rangeScanWithMultiValues(from, until, family)
  override def iterator(family: String): StateStoreIterator[UnsafeRowPair] = under.iterator(family)
  override def iteratorWithMultiValues(family: String): StateStoreIterator[UnsafeRowPair] =
    under.iteratorWithMultiValues(family)
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
  override def putList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit =
    under.putList(key, values, family)
  override def remove(key: UnsafeRow, family: String): Unit = under.remove(key, family)
  override def deleteRange(from: UnsafeRow, until: UnsafeRow, family: String): Unit =
    under.deleteRange(from, until, family)
  override def merge(key: UnsafeRow, value: UnsafeRow, family: String): Unit = under.merge(key, value, family)
  override def mergeList(key: UnsafeRow, values: Array[UnsafeRow], family: String): Unit =
    under.mergeList(key, values, family)
  override def commit(): Long = under.commit()
  override def abort(): Unit = under.abort()
  override def release(): Unit = under.release()
  override def hasCommitted: Boolean = under.hasCommitted
  override def metrics: StateStoreMetrics = under.metrics
  override def getStateStoreCheckpointInfo(): StateStoreCheckpointInfo = under.getStateStoreCheckpointInfo()
  override def allColumnFamilyNames: Set[String] = under.allColumnFamilyNames
}
