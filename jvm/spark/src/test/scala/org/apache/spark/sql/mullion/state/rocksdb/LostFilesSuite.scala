package org.apache.spark.sql.mullion.state.rocksdb

import java.io.{EOFException, FileNotFoundException, IOException}
import java.util.zip.ZipException

import dev.mullion.MullionSuite

/** Errors that say that files of state are lost, and errors of the disk. */
class LostFilesSuite extends MullionSuite {
  test("files that are missing or cut are lost, also as the cause of another error") {
    val missing = new FileNotFoundException("/state/0/0/7_1.zip (No such file or directory)")
    assertEquals(
      LostFiles.in(new IllegalStateException("a task", missing)),
      Some("FileNotFoundException: /state/0/0/7_1.zip (No such file or directory)")
    )
    assertEquals(LostFiles.in(new FileNotFoundException("File file:/7_1.zip does not exist.")).isDefined, true)
    assertEquals(LostFiles.in(new EOFException), Some("EOFException"))
    assertEquals(LostFiles.in(new ZipException("cut")), Some("ZipException: cut"))
    assertEquals(LostFiles.in(new AssertionError("assertion failed: another")), None)
    assertEquals(LostFiles.in(new IOException("Stream is corrupted")), Some("IOException: Stream is corrupted"))
  }

  for (
    reason <- Seq(
      "No space left on device",
      "Disk quota exceeded",
      "Read-only file system",
      "Permission denied",
      "Too many open files",
      "Input/output error"
    )
  ) test(s"a disk on which Java cannot create a file has not lost files: $reason") {
    assertEquals(LostFiles.in(new FileNotFoundException(s"/tmp/spark/000007.sst ($reason)")), None)
    assertEquals(LostFiles.in(new IOException(reason)), None)
  }
}
