package org.apache.spark.sql.mullion.tables

import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.sql.classic.SparkSession

/** The versions of a table that is rewritten each time: subfolders of the table's. A version is valid once its marker
  * has been written, which is last.
  *
  * {{{
  *   visits/_version-00000000007/part-…  _SUCCESS
  *   visits/_version-00000000008/part-…            incomplete: 7 is the newest
  * }}}
  */
object TableVersions {
  private val name = "_version-(\\d{11})".r

  def folder(version: Long): String = f"_version-$version%011d"

  /** The newest valid version, or -1. */
  def newest(spark: SparkSession, table: String): Long = {
    val (files, path) = of(spark, table)
    all(files, path).filter(v => files.exists(new Path(new Path(path, folder(v)), "_SUCCESS"))).maxOption.getOrElse(-1L)
  }

  /** Removes those before a version. */
  def removeBefore(spark: SparkSession, table: String, version: Long): Unit = {
    val (files, path) = of(spark, table)
    all(files, path).filter(_ < version).foreach(v => files.delete(new Path(path, folder(v)), true))
  }

  private def all(files: FileSystem, path: Path): Seq[Long] =
    if (!files.exists(path)) Nil
    else files.listStatus(path).toSeq.map(_.getPath.getName).collect { case name(number) => number.toLong }

  private def of(spark: SparkSession, table: String): (FileSystem, Path) = {
    val path = new Path(table)
    (path.getFileSystem(spark.sessionState.newHadoopConf()), path)
  }
}
