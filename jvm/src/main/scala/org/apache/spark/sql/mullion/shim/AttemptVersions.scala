package org.apache.spark.sql.mullion.shim

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state.RocksDBLineageManager

/** The ids that a store in RocksDB gives to its versions, and the files that its maintenance keeps. Spark names the
  * files of a version by its id, in format 2 of checkpoints, and each changelog lists the versions that it was made
  * from back to a snapshot:
  *
  * {{{
  *   10_a.zip    11_b.changelog    12_c.changelog    13_d.changelog      13 is made of 10_a, 11_b and 12_c
  *                                 12_x.zip                              an attempt that does not count
  * }}}
  *
  * Spark's maintenance goes by numbers of versions alone: for a while after 12_x.zip is uploaded, it takes 12 for the
  * snapshot that 13 starts from, and may then delete 10_a.
  *
  * @param nextId
  *   an id for the version that the running task makes
  */
private[sql] final class AttemptVersions(folder: String, hadoopConf: Configuration, nextId: () => String) {
  private var ofChangelog = Option.empty[String]
  @volatile private var oldest = Option.empty[Long]

  /** An id for a changelog, which is named before its version is. */
  def nameChangelog(): String = {
    val id = nextId()
    ofChangelog = Some(id)
    id
  }

  /** The id of the version that a task makes once it has opened the one before.
    *
    * @param lineage
    *   what that one is made of
    */
  def opened(lineage: RocksDBLineageManager): String = {
    oldest = Some(lineage.getLineageForCurrVersion().headOption.fold(0L)(_.version))
    val id = ofChangelog.getOrElse(nextId())
    ofChangelog = None
    id
  }

  /** The number of versions to retain, so that all files stay that the version consists of which was opened last. The
    * snapshots of other attempts count for nothing.
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

/** What the version in a store is made of, which Spark forgets up to a snapshot that was uploaded. Here only one that
  * belongs to the version: another attempt's may have its number.
  */
private[sql] final class AttemptLineage(hasSnapshot: (Long, String) => Boolean) extends RocksDBLineageManager {
  override def truncateFromVersion(versionToKeep: Long): Unit =
    getLineageForCurrVersion().find(_.version == versionToKeep).foreach { item =>
      if (hasSnapshot(item.version, item.checkpointUniqueId))
        synchronized { if (contains(item)) super.truncateFromVersion(versionToKeep) }
    }
}
