package org.apache.spark.sql.mullion.state

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.shim.SparkLineShim
import org.apache.spark.sql.mullion.state.store.HotMemory

import dev.mullion.MullionException

/** Settings that state cannot be kept with: told when a query starts, and not by the tasks of its first batch. */
private[mullion] object StateSettings {
  private val format = SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key

  /** @param conf
    *   the session's
    * @param isKnown
    *   whether Spark keeps ids of the operator's versions where the session asks for them
    * @param hasIds
    *   whether the batch before noted ids of its versions of state: it was committed with format 2
    */
  def check(
      info: SparkLineShim.StateInfo,
      conf: SQLConf,
      isKnown: Boolean,
      hasIds: => Boolean
  ): Unit = {
    val asked = conf.getConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION)
    val checkpoint = new Path(info.checkpointLocation).getParent
    if (isKnown && info.storeVersion > 0) {
      if (asked > 1 && info.stateStoreCkptIds.isEmpty) throw writtenWith(1, asked, checkpoint)
      if (asked == 1 && hasIds) throw writtenWith(2, asked, checkpoint)
    }
    Option(conf.getConfString(HotMemory.Setting, None.orNull)).foreach(HotMemory.bytesOf)
  }

  /** Refuses a checkpoint whose last batch was committed with another format than is asked for.
    *
    * @param hasIds
    *   whether that batch noted ids of its versions of state
    */
  def checkFormat(conf: SQLConf, checkpoint: Path, hasIds: Boolean): Unit = {
    val asked = conf.getConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION)
    if (hasIds != asked > 1) throw writtenWith(if (hasIds) 2 else 1, asked, checkpoint)
  }

  private def writtenWith(written: Int, asked: Int, checkpoint: Path): MullionException = {
    val versions = if (written == 1) "have no ids" else "have ids, by which its files are called"
    MullionException.incompatibleState(
      s"$format=$asked, and the checkpoint $checkpoint was written with format $written: the versions of its state $versions. " +
        s"Nothing was written. Set $format to $written for this query, or start it with a new checkpointLocation."
    )
  }
}
