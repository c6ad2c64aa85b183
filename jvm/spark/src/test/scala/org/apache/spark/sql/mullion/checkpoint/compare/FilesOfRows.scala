package org.apache.spark.sql.mullion.checkpoint.compare

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Random

/** The input files of a query, one by one, with rows from a seed.
  *
  * @param keys
  *   the number of keys, in addition to the empty one
  */
private[checkpoint] final class FilesOfRows(home: Path, seed: Long, keys: Int) {
  val folder: Path = Files.createDirectories(home.resolve("in"))

  private val random = new Random(seed)
  private var files = 0

  /** Rows with increasing times, so that none is late. */
  def write(): Unit = {
    val rows = Seq.fill(60) {
      val key = if (random.nextInt(10) == 0) "" else s"key ${random.nextInt(keys)}"
      s"${files * 60 + random.nextInt(90)},$key,${random.nextInt(3)},${random.nextInt(100)}"
    }
    put(rows)
  }

  def put(rows: Seq[String]): Unit = {
    Files.write(folder.resolve(f"$files%03d.csv"), rows.asJava)
    files += 1
  }
}

private[checkpoint] object FilesOfRows {
  val Schema = "t BIGINT, k STRING, j INT, v INT"
}
