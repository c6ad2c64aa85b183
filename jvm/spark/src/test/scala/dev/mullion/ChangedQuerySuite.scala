package dev.mullion

import java.nio.file.{Files, Path}

import org.apache.spark.sql.{Column, DataFrame, Row}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.streaming.{StreamingQueryException, Trigger}

/** Queries that change between two runs over one checkpoint, in the Scala API; `test_random_changes.py` compares with a
  * model.
  */
class ChangedQuerySuite extends SparkSuite {
  override protected def cores: Int = 2

  private val (n, total, most) = (count("*").as("n"), sum("v").as("total"), max("v").as("most"))

  private val windows = Seq[Window](Tumbling("10 seconds"), Sliding("10 seconds", "10 seconds"), Session("9 seconds"))

  for (window <- windows)
    test(s"aggregates come, go and change their order, and open panes say which are not whole ($window)") {
      TemporaryFolder.use { folder =>
        val query = new Runs(folder, window)
        assertEquals(query.run(Seq(n, total), fromNow = false, (1, 3)), Set.empty[String])
        assertEquals(query.run(Seq(total, n), fromNow = false, (2, 4)), Set.empty[String])
        val refused = intercept[StreamingQueryException](query.run(Seq(total, n, most), fromNow = false, (3, 5)))
        assert(clue(refused.getMessage).contains("newAggregates = Upgrade.FromNow"))
        assertEquals(query.run(Seq(most, total), fromNow = true), Set.empty[String])
        assertEquals(query.open("most", "total", "incomplete"), Set("5 12 [most]"))
        assertEquals(query.run(Seq(most, total), fromNow = true, (100, 1)), Set("5 12 [most]"))
      }
    }

  for (window <- windows)
    test(s"distinct values begin and end with their aggregates, and stay with them in another order ($window)") {
      TemporaryFolder.use { folder =>
        val query = new Runs(folder, window)
        // A record for each value.
        val texts = expr("count(DISTINCT repeat(v, 1200))").as("texts")
        val parity = expr("sum(DISTINCT length(repeat(v % 2, 1200)) + v % 2)").as("parity")
        def run(aggregates: Seq[Column], rows: (Int, Int)*) =
          query.run(aggregates, fromNow = true, rows: _*)
        assertEquals(run(Seq(texts, n), (1, 3), (2, 4), (2, 4)), Set.empty[String])
        assertEquals(run(Seq(n, parity, texts), (3, 3), (3, 5)), Set.empty[String])
        assertEquals(query.open("n", "texts", "parity", "incomplete"), Set("5 3 1201 [parity]"))
        assertEquals(run(Seq(parity, texts), (3, 4), (3, 6)), Set.empty[String])
        assertEquals(query.open("texts", "parity", "incomplete"), Set("4 2401 [parity]"))
        assertEquals(run(Seq(texts), (3, 7)), Set.empty[String])
        assertEquals(query.open("texts", "incomplete"), Set("5 []"))
        assertEquals(run(Seq(texts, parity), (3, 1)), Set.empty[String])
        assertEquals(query.open("texts", "parity", "incomplete"), Set("6 1201 [parity]"))
      }
    }

  test("slices that share records have one each once an aggregate comes that needs it, and share them again after it") {
    TemporaryFolder.use { folder =>
      val kinds = approx_count_distinct("v").as("kinds")
      val query = new Runs(folder, Sliding("20 seconds", "10 seconds"))
      def run(aggregates: Seq[Column], rows: (Int, Int)*) = query.run(aggregates, fromNow = true, "0 seconds", rows)
      // The slice of the first row has closed, and its record contains two others.
      assertEquals(run(Seq(n, total), (1, 3), (12, 4), (23, 6)), Set("1 3 []", "2 7 []"))
      assertEquals(run(Seq(n, total, kinds), (24, 6)), Set.empty[String])
      assertEquals(query.open("n", "total", "kinds", "incomplete"), Set("3 16 1 [kinds]", "2 12 1 [kinds]"))
      assertEquals(run(Seq(total, n), (25, 1)), Set.empty[String])
      assertEquals(run(Seq(total, n), (100, 0)), Set("17 4 []", "13 3 []"))
    }
  }

  test("closed panes stay closed when the lateness grows, and due ones close at once when it shrinks") {
    TemporaryFolder.use { folder =>
      val query = new Runs(folder, Tumbling("10 seconds"))
      def run(lateness: Span, rows: (Int, Int)*) = query.run(Seq(n), fromNow = false, lateness, rows)
      assertEquals(run("0 seconds", (1, 0), (15, 0)), Set("1"))
      assertEquals(run("1 minute", (2, 0), (16, 0)), Set.empty[String])
      assertEquals(query.open("n"), Set("2"))
      assertEquals(run("1 minute", (40, 0)), Set.empty[String])
      assertEquals(run("5 seconds", (41, 0)), Set("2"))
    }
  }

  test("compare reports the effect on a checkpoint, and writes nothing") {
    TemporaryFolder.use { folder =>
      val query = new Runs(folder, Tumbling("10 seconds"))
      query.run(Seq(n, total), fromNow = false, (1, 3))
      def verdicts(aggregates: Column*) =
        compare(query.panes(aggregates, fromNow = false, "30 seconds"), query.checkpoint)
          .select("verdict")
          .collect()
          .map(_.getString(0))
          .toSet
      assertEquals(verdicts(n), Set("goes on"))
      assertEquals(verdicts(n, most), Set("refused"))
      assertEquals(query.run(Seq(n, total), fromNow = false, (100, 1)), Set("1 3"))
    }
  }

  /** The runs of a query over one checkpoint. */
  private final class Runs(folder: Path, window: Window) {
    val checkpoint: String = folder.resolve("checkpoint").toString
    private val source = Files.createDirectory(folder.resolve("in")).toString

    def panes(aggregates: Seq[Column], fromNow: Boolean, lateness: Span): DataFrame =
      spark.readStream
        .schema("s bigint, v int")
        .json(source)
        .withColumn("at", timestamp_seconds(col("s")))
        .withWatermark("at", "0 seconds")
        .windowed(
          window,
          time = "at",
          allowedLateness = lateness,
          upgrade = Upgrade(if (fromNow) Upgrade.FromNow else Upgrade.RejectNew)
        )
        .agg(aggregates.head, aggregates.tail: _*)

    def run(aggregates: Seq[Column], fromNow: Boolean, rows: (Int, Int)*): Set[String] =
      run(aggregates, fromNow, "30 seconds", rows)

    /** The closes. */
    def run(aggregates: Seq[Column], fromNow: Boolean, lateness: Span, rows: Seq[(Int, Int)]): Set[String] = {
      if (rows.nonEmpty)
        spark.createDataFrame(rows).toDF("s", "v").coalesce(1).write.mode("append").json(source)
      val closed = Set.newBuilder[String]
      val query = panes(aggregates, fromNow, lateness).writeStream
        .foreachBatch { (batch: DataFrame, _: Long) =>
          closed ++= batch.drop("window", "pane").collect().map(ChangedQuerySuite.text)
          ()
        }
        .option("checkpointLocation", checkpoint)
        .trigger(Trigger.AvailableNow())
        .start()
      query.awaitTermination()
      closed.result()
    }

    def open(columns: String*): Set[String] =
      readPanes(spark, checkpoint).select(columns.map(col): _*).collect().map(ChangedQuerySuite.text).toSet
  }
}

object ChangedQuerySuite {
  private def text(row: Row): String = row.toSeq
    .map {
      case names: scala.collection.Seq[_] => names.mkString("[", ", ", "]")
      case value                          => String.valueOf(value)
    }
    .mkString(" ")
}
