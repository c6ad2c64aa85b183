package org.apache.spark.sql.mullion.state.store

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId

/** The rows that an operator returned for one partition in the last batch, for further actions on that batch. They are
  * their provider's ([[HotRocksDbProvider]]), and Spark may take their memory back.
  */
private[state] final class KeptRows {
  private val slot = new HotMemory.Slot[KeptRows.Result]
  private var listed = Option.empty[StateStoreProviderId]
  private var isClosed = false

  /** Has tasks find them, under the partition of a query's run. */
  def list(id: StateStoreProviderId): Unit = synchronized {
    if (!isClosed && listed.isEmpty) {
      listed = Some(id)
      KeptRows.ofPartitions.put(id, this)
      ()
    }
  }

  /** Those of an attempt of a task. */
  def of(attempt: Long): Option[RowBytes] = slot.value.collect { case KeptRows.Result(`attempt`, rows) => rows }

  /** Keeps rows in place of those before, if there is room; whether there was. */
  def keep(attempt: Long, rows: RowBytes): Boolean =
    slot.put(KeptRows.Result(attempt, rows), rows.bytes + KeptRows.Overhead, rows.share)

  /** Frees them: another batch begins. */
  def drop(): Unit = slot.drop()

  def close(): Unit = synchronized {
    isClosed = true
    listed.foreach(KeptRows.ofPartitions.remove(_, this))
    slot.close()
  }
}

private[state] object KeptRows {
  // What a block and its entry in Spark's store take.
  private final val Overhead = 512L

  private final case class Result(attempt: Long, rows: RowBytes)

  private val ofPartitions = new ConcurrentHashMap[StateStoreProviderId, KeptRows]

  /** Those of a partition, once a task of the query's run has opened it on this executor. */
  def of(id: StateStoreProviderId): Option[KeptRows] = Option(ofPartitions.get(id))

  /** How many partitions of this executor have some. */
  private[store] def count: Int = ofPartitions.size
}
