package org.apache.spark.sql.mullion.state

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.rocksdb.CacheMemory

import dev.mullion.MullionException

/** Settings that are incompatible with state: rejected when a query starts, not by the tasks of its first batch. */
private[mullion] object StateSettings {
  private val format = SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key

  /** @param conf
    *   the session's
    * @param isKnown
    *   whether Spark keeps ids of the operator's versions if the session requests them
    * @param hasIds
    *   whether the previous batch recorded ids of its state versions: it was committed with format 2
    */
  def check(
      info: SparkVersionShim.StateInfo,
      conf: SQLConf,
      isKnown: Boolean,
      hasIds: => Boolean
  ): Unit = {
    val requested = conf.getConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION)
    val checkpoint = new Path(info.checkpointLocation).getParent
    if (isKnown && info.storeVersion > 0) {
      if (requested > 1 && info.stateStoreCkptIds.isEmpty) throw writtenWith(1, requested, checkpoint)
      if (requested == 1 && hasIds) throw writtenWith(2, requested, checkpoint)
    }
    Option(conf.getConfString(CacheMemory.Setting, None.orNull)).foreach(CacheMemory.bytesOf)
  }

  /** Rejects a checkpoint whose last batch was committed with another format than requested.
    *
    * @param hasIds
    *   whether that batch recorded ids of its state versions
    */
  def checkFormat(conf: SQLConf, checkpoint: Path, hasIds: Boolean): Unit = {
    val requested = conf.getConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION)
    if (hasIds != requested > 1) throw writtenWith(if (hasIds) 2 else 1, requested, checkpoint)
  }

  private def writtenWith(written: Int, requested: Int, checkpoint: Path): MullionException = {
    val versions = if (written == 1) "have no ids" else "have ids, by which its files are called"
    MullionException.incompatibleState(
      s"$format=$requested, and the checkpoint $checkpoint was written with format $written: the versions of its state $versions. " +
        s"Nothing was written. Set $format to $written for this query, or start it with a new checkpointLocation."
    )
  }
}
