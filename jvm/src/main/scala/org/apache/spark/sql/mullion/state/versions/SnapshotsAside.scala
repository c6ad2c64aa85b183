package org.apache.spark.sql.mullion.state.versions

import java.io.IOException

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

/** Snapshots of one partition that Spark shall not find while it is tried whether a version can do without them.
  *
  * {{{
  *   7.zip -> 7.zip.aside    move      Spark lists what ends in .zip
  *                           forget    it was not needed
  *            7.zip          putBack   it was
  * }}}
  *
  * Where a process ends in between, [[move]] puts back what lies aside and is missed. Nothing that another process put
  * aside is written over or deleted.
  */
private[state] final class SnapshotsAside(folder: Path, hadoopConf: Configuration) {
  private lazy val files: FileSystem = folder.getFileSystem(hadoopConf)
  private val moved = mutable.LinkedHashMap.empty[Long, Path]
  private val found = mutable.Set.empty[Long]

  /** Puts the snapshot of a version aside, or back if only a process that has ended had put it aside; whether there is
    * now something else to read.
    */
  def move(version: Long): Boolean = {
    val home = homeOf(version)
    if (moved.contains(version) || moved.size == SnapshotsAside.Most) false
    else if (files.exists(home)) {
      val aside = Iterator.from(0).map(asideOf(version, _)).find(!files.exists(_)).get
      renamed(home, aside)
      moved(version) = aside
      true
    } else if (found.add(version) && files.exists(asideOf(version, 0))) {
      renamed(asideOf(version, 0), home)
      true
    } else false
  }

  /** Deletes what was put aside. */
  def forget(): Unit = {
    moved.values.foreach(files.delete(_, false))
    moved.clear()
  }

  /** Puts all back; whether there was any. */
  def putBack(): Boolean = {
    val any = moved.nonEmpty
    moved.foreach { case (version, aside) => renamed(aside, homeOf(version)) }
    moved.clear()
    any
  }

  private def renamed(from: Path, to: Path): Unit =
    if (!files.rename(from, to)) throw new IOException(s"$from could not be renamed to $to")

  private def homeOf(version: Long) = new Path(folder, s"$version.zip")

  private def asideOf(version: Long, number: Int) =
    new Path(folder, if (number == 0) s"$version.zip.aside" else s"$version.zip.aside.$number")
}

private[state] object SnapshotsAside {
  private val Most = 8
}
