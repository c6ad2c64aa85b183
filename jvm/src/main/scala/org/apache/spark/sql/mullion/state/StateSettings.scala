package org.apache.spark.sql.mullion.state

import org.apache.hadoop.fs.Path

import org.apache.spark.SparkConf
import org.apache.spark.internal.config.SPECULATION_ENABLED
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.shim.SparkLineShim
import org.apache.spark.sql.mullion.state.store.HotMemory

import dev.mullion.MullionException

/** Settings that state cannot be kept with: told when a query starts, and not by the tasks of its first batch. */
private[mullion] object StateSettings {
  private val format = SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key

  /** @param conf
    *   what the operator's state is opened with
    * @param hasIds
    *   whether the batch before noted ids of its versions of state: it was committed with format 2
    */
  def check(
      choice: StateChoice,
      info: SparkLineShim.StateInfo,
      conf: SQLConf,
      spark: SparkConf,
      hasIds: => Boolean
  ): Unit = {
    val asked = conf.getConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION)
    val checkpoint = new Path(info.checkpointLocation).getParent
    if (choice == StateChoice.Hdfs && asked > 1)
      throw MullionException.unsupported(
        s"$format=$asked, and state='hdfs': Spark's HDFS-backed store gives its versions no ids, which that format of " +
          s"checkpoints has. Set $format to 1, or say state='rocksdb'."
      )
    if (info.storeVersion > 0) {
      if (asked > 1 && info.stateStoreCkptIds.isEmpty) throw writtenWith(1, asked, checkpoint)
      if (asked == 1 && hasIds) throw writtenWith(2, asked, checkpoint)
    }
    if (choice == StateChoice.Memory && spark.get(SPECULATION_ENABLED))
      throw MullionException.unsupported(
        s"${SPECULATION_ENABLED.key}=true, and state='memory': a copy of a task that Spark starts on another executor finds " +
          s"no state there and fails, and four such copies end the query. Set ${SPECULATION_ENABLED.key} to false, or say " +
          "state='rocksdb'."
      )
    if (choice == StateChoice.RocksDb)
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
