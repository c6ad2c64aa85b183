package org.apache.spark.sql.mullion.state.attempt

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** The versions of one partition whose files are in the checkpoint. */
private[mullion] object AttemptFiles {
  private val Named = """(\d{1,18})_(.+)\.(?:changelog|zip)""".r

  /** The id of the last attempt that wrote a version; none if no file of that version exists. */
  def last(folder: Path, version: Long, hadoopConf: Configuration): Option[String] =
    ids(folder, hadoopConf).collect { case (`version`, id) => id }.maxOption(AttemptId.ordering)

  /** All versions with the ids of their attempts. */
  def ids(folder: Path, hadoopConf: Configuration): Seq[(Long, String)] =
    try
      folder.getFileSystem(hadoopConf).listStatus(folder).toSeq.map(_.getPath.getName).collect {
        case Named(version, id) => version.toLong -> id
      }
    catch { case _: FileNotFoundException => Nil }
}
