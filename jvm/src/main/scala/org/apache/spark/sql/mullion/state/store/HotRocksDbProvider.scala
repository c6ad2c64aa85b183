package org.apache.spark.sql.mullion.state.store

import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreConf}
import org.apache.spark.sql.mullion.shim.{RocksDbProvider, StoreAround}
import org.apache.spark.sql.mullion.state.attempts.AttemptId

/** Spark's provider of state in RocksDB, with the records of its partition that are in memory too, and the rows that
  * the operator returned in the last batch. Both go when Spark closes it, because the query has ended or the partition
  * is elsewhere.
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

/** A store of Spark's in RocksDB, and what its provider has of it in memory. */
private[state] final class HotRocksDbStore(under: StateStore, val hot: HotRecords, val rows: KeptRows)
    extends StoreAround(under)
