package org.apache.spark.sql.mullion.state.rocksdb

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId

/** The rows that an operator returned for one partition in the last batch, for further actions on that batch. They
  * belong to their provider ([[CachedRocksDbProvider]]), and Spark may evict them.
  */
private[state] final class KeptRows {
  private val slot = new CacheMemory.Slot[KeptRows.Result]
  private var listed = Option.empty[StateStoreProviderId]
  private var isClosed = false

  /** Registers them for tasks, under the partition of a query's run. */
  def list(id: StateStoreProviderId): Unit = synchronized {
    if (!isClosed && listed.isEmpty) {
      listed = Some(id)
      KeptRows.ofPartitions.put(id, this)
      ()
    }
  }

  /** The rows of an attempt of a task. */
  def of(attempt: Long): Option[RowBytes] = slot.value.collect { case KeptRows.Result(`attempt`, rows) => rows }

  /** Replaces the kept rows, if there is room. Returns whether there was. */
  def keep(attempt: Long, rows: RowBytes): Boolean =
    slot.put(KeptRows.Result(attempt, rows), rows.bytes + KeptRows.Overhead, rows.share)

  /** Frees the rows when another batch begins. */
  def drop(): Unit = slot.drop()

  def close(): Unit = synchronized {
    isClosed = true
    listed.foreach(KeptRows.ofPartitions.remove(_, this))
    slot.close()
  }
}

private[state] object KeptRows {
  // The memory of a block and its entry in Spark's store.
  private final val Overhead = 512L

  private final case class Result(attempt: Long, rows: RowBytes)

  private val ofPartitions = new ConcurrentHashMap[StateStoreProviderId, KeptRows]

  /** The rows of a partition, once a task of the query's run has opened it on this executor. */
  def of(id: StateStoreProviderId): Option[KeptRows] = Option(ofPartitions.get(id))

  /** The number of partitions of this executor with rows. */
  private[rocksdb] def count: Int = ofPartitions.size
}
