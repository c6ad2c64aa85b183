package org.apache.spark.sql.mullion.state.rocksdb

import org.rocksdb.RocksDBException

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreConf}
import org.apache.spark.sql.mullion.shim.{RocksDbProvider, StoreAround}
import org.apache.spark.sql.mullion.state.attempt.AttemptId

/** Spark's provider of state in RocksDB, with the cached records of its partition and the rows that the operator
  * returned in the last batch. Both are freed when Spark closes the provider, because the query has ended or the
  * partition has moved.
  */
final class CachedRocksDbProvider extends RocksDbProvider with BlockChecks {
  private val hot = new CachedRecords
  private val rows = new KeptRows

  ClosedAtExit.begin()

  override protected def around(store: StateStore): StateStore =
    new CachedRocksDbStore(store, hot, rows, this)

  override protected def nextId(conf: StateStoreConf): String = AttemptId.next(conf)

  override def close(): Unit =
    try {
      rows.close()
      hot.close()
    } finally super.close()
}

/** Counts of the blocks that differ from their checksums. */
private[state] trait BlockChecks {

  /** Those that have been read so far. */
  def damagedBlocks: Long

  /** Those among all, after all records have been read. */
  def damagedBlocksInAll: Long
}

/** Spark's store in RocksDB, and its provider's caches. */
private[state] final class CachedRocksDbStore(
    under: StateStore,
    val hot: CachedRecords,
    val rows: KeptRows,
    blocks: BlockChecks
) extends StoreAround(under) {

  /** Fails if a block was damaged: a scan has then ended before it, as if there were no more records. */
  def requireSound(): Unit = requireNone(blocks.damagedBlocks)

  /** The same after all records have been read. */
  def requireAllSound(): Unit = requireNone(blocks.damagedBlocksInAll)

  private def requireNone(damaged: Long): Unit =
    if (damaged > 0) throw LostFiles.error(id, version, s"has $damaged damaged blocks in its .sst files", None)

  override def get(key: UnsafeRow, family: String): UnsafeRow =
    try super.get(key, family)
    catch { case e: RocksDBException => throw LostFiles.described(id, version, e) }

  override def commit(): Long = {
    requireSound()
    super.commit()
  }
}

private[state] object CachedRocksDbStore {
  def of(store: StateStore): CachedRocksDbStore = store match {
    case owned: CachedRocksDbStore => owned
    case other                     => throw new IllegalStateException(s"${other.id} has no records in memory")
  }
}
