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
  * Where a process ends in between, [[move]] puts back what lies aside and is missed.
  */
private[state] final class SnapshotsAside(folder: Path, hadoopConf: Configuration) {
  private lazy val files: FileSystem = folder.getFileSystem(hadoopConf)
  private val moved = mutable.LinkedHashSet.empty[Long]
  private val found = mutable.Set.empty[Long]

  /** Puts the snapshot of a version aside, or back if only a process that has ended had put it aside; whether there is
    * now something else to read.
    */
  def move(version: Long): Boolean = {
    val (home, aside) = (homeOf(version), asideOf(version))
    if (moved(version) || moved.size == SnapshotsAside.Most) false
    else if (files.exists(home)) {
      if (files.exists(aside)) files.delete(aside, false)
      renamed(home, aside)
      moved += version
      true
    } else if (found.add(version) && files.exists(aside)) {
      renamed(aside, home)
      true
    } else false
  }

  /** Deletes what was put aside. */
  def forget(): Unit = {
    moved.foreach(version => files.delete(asideOf(version), false))
    moved.clear()
  }

  /** Puts all back; whether there was any. */
  def putBack(): Boolean = {
    val any = moved.nonEmpty
    moved.foreach(version => renamed(asideOf(version), homeOf(version)))
    moved.clear()
    any
  }

  private def renamed(from: Path, to: Path): Unit =
    if (!files.rename(from, to)) throw new IOException(s"$from could not be renamed to $to")

  private def homeOf(version: Long) = new Path(folder, s"$version.zip")

  private def asideOf(version: Long) = new Path(folder, s"$version.zip.aside")
}

private[state] object SnapshotsAside {
  private val Most = 8
}
