package org.apache.spark.sql.mullion.shim

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate.FlatMapGroupsWithStateExec
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreConf, StateStoreId}

/** What is told of state that is committed: 4.1 and later. */
private[shim] trait CommitsOfLine {

  /** Tells the driver that a task has committed, where it asks. */
  def reportCommit(conf: StateStoreConf, id: StateStoreId, version: Long, hadoopConf: Configuration): Unit =
    if (conf.commitValidationEnabled) StateStore.reportCommitToCoordinator(version, id, hadoopConf)
}

/** An operator that counts what its stores did. */
trait CountsStores extends FlatMapGroupsWithStateExec {

  /** The stores that it has, as Spark's metadata lists them. */
  protected def storeNames: Seq[String]

  override val stateStoreNames: Seq[String] = storeNames

  /** @param isMain
    *   whether the version is this store's
    */
  protected def countStore(store: StateStore, isMain: Boolean): Unit =
    setStoreMetrics(store, setCheckpointInfo = isMain)
}
