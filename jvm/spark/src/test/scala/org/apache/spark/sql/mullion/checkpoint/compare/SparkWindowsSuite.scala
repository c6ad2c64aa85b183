package org.apache.spark.sql.mullion.checkpoint.compare

import java.nio.file.{Files, Path}
import java.time.Instant

import scala.collection.mutable
import scala.util.Random

import munit.{Location, Slow, TestOptions}

import org.apache.spark.sql.functions.{window => sparks, _}
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolders}
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.{Column, DataFrame}

import dev.mullion.{TestSeed, _}

/** Queries of Spark's own windows that continue with Mullion's: the closes before and after the move equal a batch's.
  */
class SparkWindowsSuite extends SparkSuite with TemporaryFolders with WhereSavepointsAreWritten {
  import SparkWindowsSuite._

  override protected def cores: Int = 2

  private val seed = TestSeed.value
  private val providers = Seq("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider")

  // Two moves each time, one per state store of Spark, and the others in the slow test.
  private val chosen = new Random(seed).shuffle(moves.map(_._1)).take(2).toSet

  for ((name, move) <- moves) {
    val quick = new Random(seed).nextInt(providers.length)
    for ((provider, number) <- providers.zipWithIndex) {
      val options: TestOptions = s"Mullion continues $name: from $provider"
      folder.test(if (chosen(name) && number == quick) options else options.tag(Slow)) { home =>
        moved(new Life(home, move), provider, partitions = Some(3), format = 1)
      }
    }
  }

  folder.test("a checkpoint of format 2 continues with format 2") { home =>
    moved(new Life(home, moves.head._2), providers(1), partitions = None, format = 2)
  }

  folder.test("the first format of Spark's aggregations is read too") { home =>
    withSetting("spark.sql.streaming.aggregation.stateFormatVersion", "1") {
      moved(new Life(home, moves.head._2), providers.head, partitions = None, format = 1)
    }
  }

  private def moved(life: Life, provider: String, partitions: Option[Int], format: Int)(implicit
      loc: Location
  ): Unit = withSetting(Format, format.toString) {
    val (before, after) = (life.home.resolve("before"), life.home.resolve("after"))
    withSetting(Provider, s"$Package.$provider")(life.runSparks(before))
    savepoint(
      spark,
      before.toString,
      after.toString,
      partitions,
      panes = Some(life.ours(life.stream)),
      sparkQuery = Some(life.sparks(life.stream))
    )
    val open = readPanes(spark, after.toString).count()
    assert(clue(open) > 0)
    assertEquals(open, (life.inBatch.length - life.closed.length).toLong, s"seed $seed")
    life.run(after)
    life.finish(after)
    assertEquals(life.closed.toSeq.sorted, life.inBatch, s"seed $seed")
  }

  private def withSetting(name: String, value: String)(run: => Unit): Unit = {
    spark.conf.set(name, value)
    try run
    finally spark.conf.unset(name)
  }

  folder.test("windows that a query in complete mode keeps after their end are left out") { home =>
    val life = new Life(home, moves.head._2)
    val (before, after) = (home.resolve("before"), home.resolve("after"))
    life.runSparks(before, "complete")
    life.runSparks(before, "complete")
    val sparkQuery = Some(life.sparks(life.stream))
    savepoint(spark, before.toString, after.toString, panes = Some(life.ours(life.stream)), sparkQuery = sparkQuery)
    val first = readPanes(spark, after.toString).selectExpr("min(unix_seconds(window.end))").head().getLong(0)
    assert(clue(first) > 60)
    life.closed.clear()
    life.run(after)
    life.finish(after)
    assertEquals(life.closed.toSeq.sorted, life.inBatch.filter(row => endOf(row) >= first), s"seed $seed")
  }

  private def endOf(row: String): Long =
    Instant.parse(row.split("\"end\":\"").last.takeWhile(_ != '"')).getEpochSecond

  folder.test("mismatches are named, and nothing is written") { home =>
    val life = new Life(home, moves.head._2)
    val (from, to) = (home.resolve("from"), home.resolve("to"))
    life.runSparks(from)
    val rows = life.stream
    def ours(window: Window, by: Seq[Column] = keys, aggregates: Seq[Column] = aggregates) =
      rows.windowed(window, time = "ts", by = by).agg(aggregates.head, aggregates.tail: _*)
    def sparksOwn(window: Column, by: Seq[Column] = keys, aggregates: Seq[Column] = aggregates) =
      rows.groupBy(window +: by: _*).agg(aggregates.head, aggregates.tail: _*)
    val (tumbling, same) = (Tumbling("30 seconds"), sparksOwn(sparks(col("ts"), "30 seconds")))
    def refused(what: String, panes: DataFrame, sparkQuery: DataFrame = same): Unit = {
      val e = intercept[MullionException] {
        savepoint(spark, from.toString, to.toString, panes = Some(panes), sparkQuery = Some(sparkQuery))
      }
      assert(clue(e.getMessage).contains(what))
      assert(!Files.exists(to))
      assert(!home.toFile.list.exists(_.contains("savepoint")))
    }
    if (!areWritten) savepoint(spark, from.toString, to.toString, panes = Some(ours(tumbling)), sparkQuery = Some(same))
    val alone = intercept[MullionException](savepoint(spark, from.toString, to.toString))
    assert(clue(alone.getMessage).contains("savepoint(checkpoint, to, sparkQuery = ..., panes = ...)"))
    refused("is tumbling 1 minute, and Spark's in sparkQuery = is tumbling 30 seconds", ours(Tumbling("1 minute")))
    refused("is session", ours(Session("30 seconds")))
    refused("Keys in sparkQuery = are", ours(tumbling, by = Seq(col("k"))))
    refused(
      "The aggregate max(j) in panes = is none of sparkQuery =",
      ours(tumbling, aggregates = aggregates :+ max("j"))
    )
    refused("The window in sparkQuery = is of late, and", ours(tumbling), sparksOwn(sparks(col("late"), "30 seconds")))
    refused(
      "its state has [",
      ours(tumbling, aggregates = aggregates.take(1)),
      sparksOwn(sparks(col("ts"), "30 seconds"), aggregates = aggregates.take(1))
    )
    val sliding = sparksOwn(sparks(col("ts"), "30 seconds", "10 seconds"))
    refused("Spark stores each overlapping window separately", ours(Sliding("30 seconds", "10 seconds")), sliding)
    refused("has a window [", ours(Tumbling("31 seconds")), sparksOwn(sparks(col("ts"), "31 seconds")))
    refused(
      "empty = Empty.Emit",
      rows.windowed(tumbling, time = "ts", by = keys, empty = Empty.Emit).agg(aggregates.head, aggregates.tail: _*)
    )
    refused("is not a result of windowed", rows)
    refused("is grouped by no window", ours(tumbling), rows.groupBy("k").agg(aggregates.head))
  }

  /** A query over files, first of Spark's own windows. */
  private final class Life(val home: Path, move: Move) {
    val closed: mutable.Buffer[String] = mutable.Buffer.empty

    private val in = new FilesOfRows(home, seed, keys = 15)

    def write(): Unit = in.write()

    def stream: DataFrame =
      timed(spark.readStream.schema(FilesOfRows.Schema).csv(in.folder.toString)).withWatermark("ts", "40 seconds")

    def sparks(rows: DataFrame): DataFrame = move.sparks(rows)

    def ours(rows: DataFrame): DataFrame = move.ours(rows)

    def runSparks(checkpoint: Path, mode: String = "append"): Unit = {
      write()
      write()
      sparks(stream).writeStream
        .outputMode(mode)
        .option("checkpointLocation", checkpoint.toString)
        .trigger(Trigger.AvailableNow)
        .foreachBatch { (batch: DataFrame, _: Long) =>
          closed ++= texts(batch)
          ()
        }
        .start()
        .awaitTermination()
    }

    def run(checkpoint: Path): Unit = {
      write()
      write()
      start(checkpoint)
    }

    def finish(checkpoint: Path): Unit = {
      in.put(Seq("1000000,none,0,0"))
      start(checkpoint)
    }

    private def start(checkpoint: Path): Unit =
      ours(stream).writeStream
        .option("checkpointLocation", checkpoint.toString)
        .trigger(Trigger.AvailableNow)
        .foreachBatch { (batch: DataFrame, _: Long) =>
          closed ++= texts(batch.where("pane.firing = 'close'"))
          ()
        }
        .start()
        .awaitTermination()

    def inBatch: Seq[String] =
      texts(sparks(timed(spark.read.schema(FilesOfRows.Schema).csv(in.folder.toString))))
        .filterNot(_.contains("1970-01-12"))
        .sorted

    private def timed(rows: DataFrame) = rows
      .withColumn("ts", timestamp_seconds(col("t")))
      .withColumn("late", col("ts"))
      .withColumn("d", expr("CASE j WHEN 0 THEN -0.0D WHEN 1 THEN double('NaN') ELSE 0.0D END"))
      .withColumn("s", expr("named_struct('a', k, 'b', array(j))"))
      .withColumn("at", expr("timestamp_seconds(j)"))
      .withColumn("dec", expr("CAST(j AS DECIMAL(20, 2))"))
      .withColumn("bin", expr("encode(k, 'UTF-8')"))

    private def texts(panes: DataFrame): Seq[String] = {
      val columns = (panes.columns.filterNot(Set("pane", "session_window", "window")).sorted ++ Seq("window")).toSeq
      val named =
        if (panes.columns.contains("session_window")) panes.withColumnRenamed("session_window", "window") else panes
      named.select(columns.map(col): _*).toJSON.collect().toSeq
    }
  }
}

object SparkWindowsSuite {
  private val Format = "spark.sql.streaming.stateStore.checkpointFormatVersion"
  private val Provider = "spark.sql.streaming.stateStore.providerClass"
  private val Package = "org.apache.spark.sql.execution.streaming.state"

  private val keys = Seq(col("k"), col("j"))

  private val aggregates: Seq[Column] = Seq(
    count(lit(1)).as("n"),
    sum("v").as("total"),
    expr("sum(v) FILTER (WHERE j > 0)").as("some"),
    avg("v").as("mean"),
    min("k").as("least"),
    max("v").as("most"),
    round(stddev("v"), 6).as("spread"),
    sort_array(collect_list("v")).as("all"),
    approx_count_distinct("v").as("about"),
    max_by(col("v"), col("v")).as("by"),
    (sum("v") / count(lit(1))).as("ratio"),
    expr("count_if(v > 50)").as("above"),
    expr("bool_or(v > 98)").as("any"),
    first("k").as("first"),
    last("k").as("last"),
    expr("percentile(v, 0.5)").as("median")
  )

  /** A window of Spark's own, and the Mullion window that continues. */
  private final case class Move(sparks: DataFrame => DataFrame, ours: DataFrame => DataFrame)

  private def move(own: Column, window: Window, by: Seq[Column] = keys, aggregates: Seq[Column] = aggregates) = Move(
    rows => rows.groupBy(own +: by: _*).agg(aggregates.head, aggregates.tail: _*),
    // In another order, which does not matter.
    rows => rows.windowed(window, time = "ts", by = by.reverse).agg(aggregates.last, aggregates.init: _*)
  )

  private val gap = expr("CAST(CASE WHEN v > 50 THEN '20 seconds' ELSE '5 seconds' END AS INTERVAL)")

  private val moves: Seq[(String, Move)] = Seq(
    "a tumbling window" -> move(sparks(col("ts"), "30 seconds"), Tumbling("30 seconds")),
    "a tumbling window with an offset" -> move(
      sparks(col("ts"), "30 seconds", "30 seconds", "7 seconds"),
      Tumbling("30 seconds", "7 seconds")
    ),
    "a window by keys of many types" -> move(
      sparks(col("ts"), "30 seconds"),
      Tumbling("30 seconds"),
      Seq("d", "s", "at", "dec", "bin").map(col),
      aggregates.filterNot(c => Set("first", "last").exists(name => c.toString.contains(name)))
    ),
    "a window without a key" -> move(
      sparks(col("ts"), "3 seconds"),
      Tumbling("3 seconds"),
      Nil,
      aggregates.filterNot(c => Set("first", "last").exists(name => c.toString.contains(name)))
    ),
    "sessions" -> move(session_window(col("ts"), "15 seconds"), Session("15 seconds")),
    "sessions whose rows bring their gaps" -> move(session_window(col("ts"), gap), Session.byRow(gap)),
    "a window that then fires early and waits for late rows" -> Move(
      move(sparks(col("ts"), "30 seconds"), Tumbling("30 seconds")).sparks,
      rows =>
        rows
          .windowed(
            Tumbling("30 seconds"),
            time = "ts",
            by = keys,
            early = Early.count(2),
            allowedLateness = "10 seconds",
            onTime = true
          )
          .agg(aggregates.head, aggregates.tail: _*)
    ),
    "sessions that then have ids" -> Move(
      move(session_window(col("ts"), "15 seconds"), Session("15 seconds")).sparks,
      rows =>
        rows
          .windowed(Session("15 seconds"), time = "ts", by = keys, ids = true)
          .agg(aggregates.head, aggregates.tail: _*)
    ),
    "a sliding window, as custom ones" -> move(
      sparks(col("ts"), "30 seconds", "10 seconds"),
      Custom(expr("mullion_windows(ts, '30 seconds', '10 seconds')"))
    )
  )
}
