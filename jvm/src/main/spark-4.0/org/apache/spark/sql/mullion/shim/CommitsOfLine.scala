package org.apache.spark.sql.mullion.shim

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.{FlatMapGroupsWithStateExec, StatefulOperatorStateInfo}
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreConf, StateStoreId}

/** What is told of state that is committed: 4.0, whose driver asks for nothing. */
private[shim] trait CommitsOfLine {
  def reportCommit(conf: StateStoreConf, id: StateStoreId, version: Long, hadoopConf: Configuration): Unit = ()
}

/** An operator that counts what its stores did. */
trait CountsStores extends FlatMapGroupsWithStateExec {

  /** The stores that it has, as Spark's metadata lists them. */
  protected def storeNames: Seq[String]

  def stateStoreNames: Seq[String] = storeNames

  /** @param isMain
    *   whether the version is this store's. Spark would report each that it counts, where it asks for versions by name
    */
  protected def countStore(store: StateStore, isMain: Boolean): Unit =
    if (isMain || !StatefulOperatorStateInfo.enableStateStoreCheckpointIds(conf)) setStoreMetrics(store)
}
