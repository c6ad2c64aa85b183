package org.apache.spark.sql.mullion.pyfunction.dataflow

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}

import scala.util.Random

import org.apache.spark.sql.mullion.TemporaryFolders

import dev.mullion.MullionSuite

class FileRangesSuite extends MullionSuite with TemporaryFolders {

  /** The ranges from the beginning on, in steps of at most this number of lines. */
  private def rangesOf(file: Path, batchSize: Int, most: Int): Seq[(Long, Long)] =
    Iterator
      .iterate((0L, -1L)) { case (at, _) =>
        val result = FileRanges.linesIn(file.toString, at, "", batchSize, most)
        (result(0), result(1))
      }
      .drop(1)
      .takeWhile(_._2 > 0)
      .toSeq

  folder.test(
    "all lines are found that there are, also where the first ones say too little of how long the others are"
  ) { folder =>
    val random = new Random(3)
    val file = folder.resolve("lines")
    for ((short, long) <- Seq((5, 5), (3, 400), (400, 3), (0, 3000))) {
      val lines =
        Vector.fill(3000)("s" * random.nextInt(short + 1)) ++ Vector.fill(6000)("é" * random.nextInt(long + 1))
      Files.write(file, lines.map(_ + "\n").mkString.getBytes(UTF_8))
      val ends = lines.scanLeft(0L)(_ + _.getBytes(UTF_8).length + 1L)
      val steps = rangesOf(file, 50, 2500)
      val last = steps.scanLeft(0L)(_ + _._2).drop(1)
      assertEquals(steps.map(_._1), last.map(line => ends(line.toInt)))
      // At most eight megabytes are read.
      assertEquals(steps.map(_._2), if (long < 3000) Seq(2500L, 2500L, 2500L, 1500L) else steps.map(_._2))
      assertEquals(last.last, 9000L)
    }
  }
}
