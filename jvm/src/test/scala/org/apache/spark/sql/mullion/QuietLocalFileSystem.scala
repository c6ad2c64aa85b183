package org.apache.spark.sql.mullion

import org.apache.hadoop.fs.{LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.permission.FsPermission

/** Local files for tests that write thousands of small ones. Where Hadoop's native library is missing, it starts
  * `chmod` for each file that it makes, which costs more than all that a test does.
  */
final class QuietLocalFileSystem extends LocalFileSystem(new QuietRawFileSystem)

final class QuietRawFileSystem extends RawLocalFileSystem {
  override def setPermission(path: Path, permission: FsPermission): Unit = ()
}
