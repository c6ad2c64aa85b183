package org.apache.spark.sql.mullion.shim

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state.RocksDBLineageManager

/** The version ids of a RocksDB store, and the files that its maintenance keeps. In checkpoint format 2, Spark includes
  * a version's id in file names, and each changelog lists its versions back to a snapshot:
  *
  * {{{
  *   10_a.zip    11_b.changelog    12_c.changelog    13_d.changelog      13 consists of 10_a, 11_b and 12_c
  *                                 12_x.zip                              an attempt that does not count
  * }}}
  *
  * Spark's maintenance uses the numbers of versions only: after the upload of 12_x.zip, it assumes that 13 starts from
  * snapshot 12, and may delete 10_a.
  *
  * @param nextId
  *   an id for the version that the running task writes
  */
private[sql] final class AttemptVersions(folder: String, hadoopConf: Configuration, nextId: () => String) {
  private var ofChangelog = Option.empty[String]
  @volatile private var oldest = Option.empty[Long]

  /** An id for a changelog, which is named before its version. */
  def nameChangelog(): String = {
    val id = nextId()
    ofChangelog = Some(id)
    id
  }

  /** The id of the version that a task writes after opening the previous one.
    *
    * @param lineage
    *   of the previous version
    */
  def opened(lineage: RocksDBLineageManager): String = {
    oldest = Some(lineage.getLineageForCurrVersion().headOption.fold(0L)(_.version))
    val id = ofChangelog.getOrElse(nextId())
    ofChangelog = None
    id
  }

  /** The number of versions to retain, so that all files of the last opened version stay. Snapshots of other attempts
    * do not count.
    */
  def retained(asked: Int): Int = oldest.fold(Int.MaxValue) { first =>
    Math.max(asked.toLong, newestSnapshot - first + 1).toInt
  }

  private def newestSnapshot: Long = {
    val path = new Path(folder)
    try
      path
        .getFileSystem(hadoopConf)
        .listStatus(path)
        .map(_.getPath.getName)
        .collect {
          case name if name.endsWith(".zip") => name.takeWhile(_.isDigit).toLong
        }
        .maxOption
        .getOrElse(0L)
    catch { case _: FileNotFoundException => 0L }
  }
}

/** The lineage of a store's version, which Spark truncates at an uploaded snapshot. This class only accepts snapshots
  * of the version itself: another attempt's may have the same number.
  */
private[sql] final class AttemptLineage(hasSnapshot: (Long, String) => Boolean) extends RocksDBLineageManager {
  override def truncateFromVersion(versionToKeep: Long): Unit =
    getLineageForCurrVersion().find(_.version == versionToKeep).foreach { item =>
      if (hasSnapshot(item.version, item.checkpointUniqueId))
        synchronized { if (contains(item)) super.truncateFromVersion(versionToKeep) }
    }
}
