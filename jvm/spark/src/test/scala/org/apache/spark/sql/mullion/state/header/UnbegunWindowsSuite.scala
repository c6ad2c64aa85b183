package org.apache.spark.sql.mullion.state.header

import java.nio.file.{Files, Path}
import java.sql.Timestamp

import scala.collection.mutable

import org.apache.spark.sql.{functions => F, Column, DataFrame, Encoders, Row}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.streaming.StreamingQueryException

import dev.mullion.{Asked, Facade}

/** Windows without rows in the first batches of a query: their types are fixed by their first rows. */
class UnbegunWindowsSuite extends SparkSuite {
  import UnbegunWindowsSuite._

  override protected def cores: Int = 2

  test("a window without rows takes other types when its first rows come, and keeps them") {
    TemporaryFolder.use { checkpoint =>
      val query = new Runs(checkpoint)
      def tens(kind: String): DataFrame => DataFrame =
        rows => window(rows, 10, F.max(F.col("v").cast(kind)).as("top"))

      // Two batches, none of whose rows are in the window.
      assertEquals(query.run(tens("int"), unbegun = "*", Seq(nowhere), Seq(nowhere)), Nil)
      val before = query.header
      assert(clue(before).contains("\"INT\""))

      val refused = query.refused(tens("string"), unbegun = "")
      assert(clue(refused).contains("accumulators was [INT] and is now [STRING]"))
      assertEquals(query.header, before, "nothing was overwritten")

      // As texts 9 is more than 10.
      val rows = Seq(Seq(at(1, 9), at(2, 10)), Seq(at(12, 7)))
      assertEquals(query.run(tens("string"), unbegun = "*", rows: _*), Seq("9"))
      val begun = query.header
      assert(clue(begun).contains("\"STRING\""))

      assert(clue(query.refused(tens("bigint"), unbegun = "")).contains("was [STRING] and is now [BIGINT]"))
      assertEquals(query.header, begun, "nothing was overwritten")
      assertEquals(query.run(tens("string"), unbegun = "", Seq(at(15, 8)), Seq(at(25, 1))), Seq("8"))
    }
  }

  test("of several windows in one query one without rows accepts other types, and the panes of the others stay open") {
    TemporaryFolder.use { checkpoint =>
      val query = new Runs(checkpoint)
      def both(all: String, few: String)(rows: DataFrame): DataFrame = {
        def max(kind: String, name: String) = F.max(F.col("v").cast(kind)).as(name)
        // Rows between the windows of `few` are in none of them.
        val windows = Array(
          window(rows, 10, max(all, "all")),
          window(rows, 1, max(few, "few"), every = 10)
        )
        val names = Array("all", "few")
        Facade.together(names, windows).select(F.coalesce(F.col("all").cast("string"), F.col("few").cast("string")))
      }

      assertEquals(query.run(both("int", "int"), unbegun = "few", Seq(at(5, 9)), Seq(at(6, 10))), Nil)
      val before = query.header
      val refused = query.refused(both("string", "int"), unbegun = "few")
      assert(clue(refused).contains("of the window 'all' aggregates was"))
      assertEquals(query.header, before, "nothing was overwritten")

      val rows = Seq(Seq(at(10.1, 9), at(10.2, 10)), Seq(at(35, 1)))
      assertEquals(query.run(both("int", "string"), unbegun = "few", rows: _*).sorted, Seq("10", "10", "9"))
      assert(clue(query.refused(both("int", "int"), unbegun = "")).contains("of the window 'few' aggregates was"))
    }
  }

  private def window(rows: DataFrame, size: Long, value: Column, every: Long = 10): DataFrame = {
    val options = Asked.options.copy(time = Some(F.col("ts")))
    val spec = Asked.sliding(size * 1000000L, every * 1000000L, 0L)
    Asked.windowed(rows, spec, Array(F.col("k")), options, Array(value))
  }

  /** The runs of a query, one after another, from one checkpoint. */
  private final class Runs(checkpoint: Path) {
    private val source = MemoryStream[TimedValue](spark, 2)(Encoders.product[TimedValue])

    /** Runs some batches. Returns the output, one result per row. */
    def run(query: DataFrame => DataFrame, unbegun: String, batches: Seq[TimedValue]*): Seq[String] = {
      val shown = mutable.ArrayBuffer.empty[String]
      spark.conf.set(OperatorHeader.Unbegun, unbegun)
      val rows = source.toDF().where("v IS NOT NULL").withWatermark("ts", "0 seconds")
      val results = query(rows)
      val running = results
        .select(results.columns.last)
        .writeStream
        .foreachBatch { (batch: org.apache.spark.sql.Dataset[Row], _: Long) =>
          shown ++= batch.collect().map(row => String.valueOf(row.get(0)))
          ()
        }
        .option("checkpointLocation", checkpoint.toString)
        .start()
      try
        batches.foreach { batch =>
          source.addData(batch)
          running.processAllAvailable()
        }
      finally running.stop()
      shown.toSeq
    }

    /** The error with which the query does not continue. */
    def refused(query: DataFrame => DataFrame, unbegun: String): String =
      intercept[StreamingQueryException](run(query, unbegun, Seq(nowhere))).getMessage

    def header: String = Files.readString(checkpoint.resolve("state/0/_mullion/header.json"))
  }

}

object UnbegunWindowsSuite {
  final case class TimedValue(ts: Timestamp, k: Int, v: Option[Int])

  /** A row that is in no window. */
  private val nowhere = TimedValue(new Timestamp(0L), 1, None)

  private def at(seconds: Double, v: Int) = TimedValue(new Timestamp((seconds * 1000).toLong), 1, Some(v))
}
