package org.apache.spark.sql.mullion.state.store

import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreConf}
import org.apache.spark.sql.mullion.shim.{RocksDbProvider, StoreAround}
import org.apache.spark.sql.mullion.state.attempts.AttemptId

/** Spark's provider of state in RocksDB, with the cached records of its partition and the rows that the operator
  * returned in the last batch. Both are freed when Spark closes the provider, because the query has ended or the
  * partition has moved.
  */
final class HotRocksDbProvider extends RocksDbProvider {
  private val hot = new HotRecords
  private val rows = new KeptRows

  ClosedAtExit.begin()

  override protected def around(store: StateStore): StateStore =
    new HotRocksDbStore(store, hot, rows)

  override protected def nextId(conf: StateStoreConf): String = AttemptId.next(conf)

  override def close(): Unit =
    try {
      rows.close()
      hot.close()
    } finally super.close()
}

/** Spark's store in RocksDB, and its provider's caches. */
private[state] final class HotRocksDbStore(under: StateStore, val hot: HotRecords, val rows: KeptRows)
    extends StoreAround(under)
