package org.apache.spark.sql.mullion.state.rocksdb

import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreConf}
import org.apache.spark.sql.mullion.shim.{RocksDbProvider, StoreAround}
import org.apache.spark.sql.mullion.state.attempt.AttemptId

/** Spark's provider of state in RocksDB, with the cached records of its partition and the rows that the operator
  * returned in the last batch. Both are freed when Spark closes the provider, because the query has ended or the
  * partition has moved.
  */
final class CachedRocksDbProvider extends RocksDbProvider {
  private val hot = new CachedRecords
  private val rows = new KeptRows

  ClosedAtExit.begin()

  override protected def around(store: StateStore): StateStore =
    new CachedRocksDbStore(store, hot, rows)

  override protected def nextId(conf: StateStoreConf): String = AttemptId.next(conf)

  override def close(): Unit =
    try {
      rows.close()
      hot.close()
    } finally super.close()
}

/** Spark's store in RocksDB, and its provider's caches. */
private[state] final class CachedRocksDbStore(under: StateStore, val hot: CachedRecords, val rows: KeptRows)
    extends StoreAround(under)
