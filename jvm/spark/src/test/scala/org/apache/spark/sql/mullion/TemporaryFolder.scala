package org.apache.spark.sql.mullion

import java.nio.file.{Files, Path}

import munit.FunSuite
import org.apache.commons.io.FileUtils

/** A folder that exists during one use, and is then deleted. */
object TemporaryFolder {
  def use[T](body: Path => T): T = {
    val folder = make()
    try body(folder)
    finally delete(folder)
  }

  def make(): Path = Files.createTempDirectory("mullion-test")

  /** Ignores errors: a query that just stopped may still remove its own files. */
  def delete(folder: Path): Unit = FileUtils.deleteQuietly(folder.toFile): Unit
}

/** A suite whose tests may use a folder. */
trait TemporaryFolders { this: FunSuite =>
  protected val folder: FunFixture[Path] = FunFixture[Path](_ => TemporaryFolder.make(), TemporaryFolder.delete)
}
