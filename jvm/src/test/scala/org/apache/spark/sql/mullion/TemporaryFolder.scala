package org.apache.spark.sql.mullion

import java.nio.file.{Files, Path}

import munit.FunSuite
import org.apache.commons.io.FileUtils

/** A folder that is there for one use, and is gone with all that is in it. */
object TemporaryFolder {
  def use[T](body: Path => T): T = {
    val folder = make()
    try body(folder)
    finally delete(folder)
  }

  def make(): Path = Files.createTempDirectory("mullion-test")

  /** Whatever is in it: a query that just stopped may still remove files of its own. */
  def delete(folder: Path): Unit = FileUtils.deleteQuietly(folder.toFile): Unit
}

/** A suite whose tests may ask for a folder of their own. */
trait TemporaryFolders { this: FunSuite =>
  protected val folder: FunFixture[Path] = FunFixture[Path](_ => TemporaryFolder.make(), TemporaryFolder.delete)
}
