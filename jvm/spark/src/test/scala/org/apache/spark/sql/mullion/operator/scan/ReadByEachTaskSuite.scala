package org.apache.spark.sql.mullion.operator.scan

import java.nio.file.Path

import scala.util.Random

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryProgress, Trigger}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{functions => F, DataFrame, Row}

import dev.mullion.{Asked, MullionExtensions, TestSeed}

/** Queries whose batches are small files, each read by the tasks of two partitions of state. */
class ReadByEachTaskSuite extends SparkSuite {
  import ReadByEachTaskSuite._

  private val seed = TestSeed.value

  override protected def cores: Int = 2

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.extensions" -> classOf[MullionExtensions].getName,
    "spark.sql.streaming.noDataMicroBatches.enabled" -> "false"
  )

  private def write(folder: Path, rows: Seq[Reading], format: String): Unit =
    spark
      .createDataFrame(rows)
      .select(F.timestamp_seconds(F.col("second")).as("ts"), F.col("key"), F.col("value"))
      .select((if (format == "text") Seq(F.to_json(F.struct("*")).as("value")) else Seq(F.col("*"))): _*)
      .repartition(1)
      .write
      .mode("append")
      .format(format)
      .save(folder.toString)

  private def read(folder: Path, format: String, options: Map[String, String] = Map.empty): DataFrame = {
    val columns = "ts timestamp, key string, value bigint"
    val rows = spark.readStream
      .schema(if (format == "text") "value string" else columns)
      .format(format)
      .options(Map("maxFilesPerTrigger" -> "1") ++ options)
      .load(folder.toString)
    // A line of text is parsed by a function.
    if (format != "text") rows
    else rows.select(F.from_json(F.col("value"), StructType.fromDDL(columns)).as("of")).select("of.*")
  }

  // An opaque user function that is always true: below one, partitions are not processed in turn.
  private val any = F.udf((_: Long) => true)

  private def windowed(rows: DataFrame): DataFrame = Asked
    .windowed(
      rows.withWatermark("ts", "5 seconds"),
      Asked.tumbling(10000000L, 0),
      Array(F.col("key")),
      Asked.options.withTime(F.col("ts")),
      Array(F.count("*").as("n"), F.sum("value").as("total"), F.avg("value").as("mean"))
    )
    .where(any(F.col("n")))

  /** The output of a query, the plan of its last batch, and its progress. */
  private def run(panes: DataFrame): Run = TemporaryFolder.use(folder => run(panes, folder.resolve("checkpoint")))

  private def run(panes: DataFrame, checkpoint: Path): Run = {
    val rows = List.newBuilder[Row]
    val add: (DataFrame, Long) => Unit = (batch, _) => rows.synchronized { rows ++= batch.collect(); () }
    val query: StreamingQuery = panes.writeStream
      .foreachBatch(add)
      .option("checkpointLocation", checkpoint.toString)
      .trigger(Trigger.AvailableNow())
      .start()
    query.awaitTermination()
    Run(rows.result().map(_.toString).sorted, lastPlan(query), query.recentProgress.toSeq)
  }

  private def batches(random: Random, count: Int, rows: Int): Seq[Seq[Reading]] = Seq.tabulate(count) { i =>
    Seq.fill(rows) {
      val key = if (random.nextInt(20) == 0) None else Some(s"key ${random.nextInt(30)}")
      Reading(i * 8L + random.nextInt(30), key, Option.when(random.nextInt(9) > 0)(random.nextLong() % 1000))
    }
  }

  for (format <- Seq("parquet", "orc", "json", "csv", "text"))
    test(s"each task reads a small file of $format, and gives and counts what a shuffle would (seed $seed)") {
      TemporaryFolder.use { folder =>
        val random = new Random(seed)
        val input = folder.resolve("input")
        batches(random, count = 4, rows = 40).foreach(write(input, _, format))
        val byEach = run(windowed(read(input, format)))
        val shuffled = run(windowed(read(input, format, Map("ignoreMissingFiles" -> "true"))))
        assert(byEach.isByEachTask, byEach.plan)
        assert(!shuffled.isByEachTask, shuffled.plan)
        assert(byEach.panes.nonEmpty)
        assertEquals(byEach.panes, shuffled.panes)
        assertEquals(byEach.counts, shuffled.counts)
        assert(clue(byEach.counts.map(_.late).sum) > 0)
      }
    }

  test(s"a query continues after batches with a shuffle, and vice versa (seed $seed)") {
    TemporaryFolder.use { folder =>
      val (input, checkpoint) = (folder.resolve("input"), folder.resolve("checkpoint"))
      val parts = batches(new Random(seed), count = 6, rows = 40).zipWithIndex.map { case (rows, i) =>
        write(input, rows, "parquet")
        val part = run(windowed(read(input, "parquet", Map("ignoreMissingFiles" -> s"${i % 2 == 0}"))), checkpoint)
        assertEquals(part.isByEachTask, i % 2 == 1)
        part.panes
      }
      assertEquals(parts.flatten.sorted.toList, run(windowed(read(input, "parquet"))).panes)
    }
  }

  test("a batch without rows has no shuffle, and closes due panes") {
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    try
      TemporaryFolder.use { folder =>
        val input = folder.resolve("input")
        write(input, Seq(Reading(1, Some("a"), Some(1L)), Reading(17, Some("b"), Some(2L))), "parquet")
        val result = run(windowed(read(input, "parquet")))
        assert(result.isByEachTask, result.plan)
        assertEquals(result.counts.map(_.input), Seq(2L, 0L))
        assertEquals(result.panes.length, 1)
      }
    finally spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
  }

  private val unsure = F.udf((value: Long) => value > 0)

  for (
    (what, rowsOf) <- Seq[(String, Path => DataFrame)](
      "a function of the user's" -> (read(_, "parquet").where(unsure(F.col("value")))),
      "a random number" -> (read(_, "parquet").where(F.rand() < 0.9999)),
      "a scalar subquery" -> (read(_, "parquet").where("value > (SELECT min(id) - 999 FROM range(3))")),
      "a scalar subquery in a column" -> (read(_, "parquet")
        .withColumn("value", F.expr("value + (SELECT max(id) FROM range(3))"))),
      "an IN subquery" -> (read(_, "parquet").where("value % 3 IN (SELECT id FROM range(2)) OR value > 0")),
      "an EXISTS subquery" -> (read(_, "parquet").where("EXISTS (SELECT 1 FROM range(3) WHERE id > 1)")),
      "the name of the file" -> (read(_, "parquet").withColumn("key", F.input_file_name())),
      "several files" -> (read(_, "parquet", Map("maxFilesPerTrigger" -> "9"))),
      "files that may be damaged" -> (read(_, "parquet", Map("ignoreCorruptFiles" -> "true"))),
      "a function that gives several rows" -> (read(_, "parquet").withColumn("key", F.explode(F.array("key", "key"))))
    )
  ) test(s"a shuffle stays next to a small file: $what") {
    TemporaryFolder.use { folder =>
      val input = folder.resolve("input")
      batches(new Random(seed), count = 3, rows = 20).foreach(write(input, _, "parquet"))
      val result = run(windowed(rowsOf(input)))
      assert(result.plan.exists(_.isInstanceOf[ShuffleExchangeExec]), result.plan)
      assert(clue(result.counts.map(_.input).sum) > 0)
    }
  }

  test("a shuffle stays where a file is large, or tasks are more than can run at once") {
    TemporaryFolder.use { folder =>
      val (large, small) = (folder.resolve("large"), folder.resolve("small"))
      val random = new Random(seed)
      write(
        large,
        Seq.fill(200000)(Reading(random.nextInt(60).toLong, Some("key"), Some(random.nextInt().toLong))),
        "parquet"
      )
      assert(run(windowed(read(large, "parquet"))).plan.exists(_.isInstanceOf[ShuffleExchangeExec]))
      write(small, Seq(Reading(1, Some("key"), Some(1L))), "parquet")
      spark.conf.set("spark.sql.shuffle.partitions", "3")
      try assert(run(windowed(read(small, "parquet"))).plan.exists(_.isInstanceOf[ShuffleExchangeExec]))
      finally spark.conf.set("spark.sql.shuffle.partitions", "2")
    }
  }
}

private object ReadByEachTaskSuite {

  final case class Run(panes: List[String], plan: SparkPlan, progress: Seq[StreamingQueryProgress]) {
    def isByEachTask: Boolean =
      plan.exists(_.isInstanceOf[ReadByEachTaskExec]) && !plan.exists(_.isInstanceOf[ShuffleExchangeExec])

    def counts: Seq[Counts] = progress.map { batch =>
      val operator = batch.stateOperators.head
      Counts(
        batch.batchId,
        batch.numInputRows,
        operator.customMetrics.get("rowsLate"),
        operator.numRowsDroppedByWatermark,
        operator.numRowsTotal,
        Option(batch.eventTime.get("max")).getOrElse("")
      )
    }
  }

  final case class Counts(batch: Long, input: Long, late: Long, dropped: Long, total: Long, latest: String)
}

final case class Reading(second: Long, key: Option[String], value: Option[Long])
