package org.apache.spark.sql.mullion.operator.scan

import java.nio.file.Path
import java.util.concurrent.atomic.AtomicInteger

import scala.util.Random

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.mullion.operator.PartitionsInTurnExec
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.streaming.{StateOperatorProgress, StreamingQueryException, StreamingQueryProgress, Trigger}
import org.apache.spark.sql.{functions => F, DataFrame, Row}

import dev.mullion.windows.spec.WindowSpec
import dev.mullion.{Asked, MullionExtensions, TestSeed}

/** Queries whose batches are small files, each processed by one task for two partitions of state. */
class PartitionsInTurnSuite extends SparkSuite {
  import PartitionsInTurnSuite._

  private val seed = TestSeed.value

  override protected def cores: Int = 3

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.extensions" -> classOf[MullionExtensions].getName,
    "spark.sql.streaming.noDataMicroBatches.enabled" -> "false"
  )

  private def withSettings[T](settings: (String, String)*)(body: => T): T = {
    val before = settings.map { case (key, _) => key -> spark.conf.getOption(key) }
    settings.foreach { case (key, value) => spark.conf.set(key, value) }
    try body
    finally before.foreach { case (key, value) => value.fold(spark.conf.unset(key))(spark.conf.set(key, _)) }
  }

  private def write(folder: Path, rows: Seq[Reading]): Unit = spark
    .createDataFrame(rows)
    .select(F.timestamp_seconds(F.col("second")).as("ts"), F.col("key"), F.col("value"))
    .repartition(1)
    .write
    .mode("append")
    .parquet(folder.toString)

  private def read(folder: Path, options: (String, String)*): DataFrame = spark.readStream
    .schema("ts timestamp, key string, value bigint")
    .options(Map("maxFilesPerTrigger" -> "1") ++ options)
    .parquet(folder.toString)
    .withWatermark("ts", "5 seconds")

  private def windowed(
      rows: DataFrame,
      window: WindowSpec = Asked.tumbling(10000000L, 0),
      late: String = "drop"
  ): DataFrame = Asked.windowed(
    rows,
    window,
    Array(F.col("key")),
    if (window == Asked.custom()) options(late).withRanges(ranges) else options(late),
    Array(F.count("*").as("n"), F.sum("value").as("total"), F.avg("value").as("mean"), F.min("value").as("least"))
  )

  private def options(late: String) = Asked.options.withTime(F.col("ts")).withLate(late)

  // Two that begin together, of which one is longer.
  private val ranges = F.expr(
    "transform(array(10, 30), s -> struct(timestamp_seconds(unix_seconds(ts) div 10 * 10) AS start, " +
      "timestamp_seconds(unix_seconds(ts) div 10 * 10 + s) AS end))"
  )

  // An opaque user function that is always true.
  private val any = F.udf((_: Long) => true)

  /** The same panes with one task per partition: a user function is above. */
  private def apart(panes: DataFrame): DataFrame = panes.where(any(F.col("n")))

  private def run(panes: DataFrame): Run = TemporaryFolder.use(folder => run(panes, folder.resolve("checkpoint")))

  /** The output of a query, batch by batch, the plan of its last one, and its progress. */
  private def run(panes: DataFrame, checkpoint: Path): Run = {
    val rows = List.newBuilder[String]
    val add: (DataFrame, Long) => Unit = (batch, number) =>
      rows.synchronized {
        rows ++= batch.collect().map(row => s"$number: $row").sorted
        ()
      }
    val query = panes.writeStream
      .foreachBatch(add)
      .option("checkpointLocation", checkpoint.toString)
      .trigger(Trigger.AvailableNow())
      .start()
    query.awaitTermination()
    Run(rows.result(), lastPlan(query), query.recentProgress.toSeq)
  }

  private def batches(random: Random, count: Int, rows: Int): Seq[Seq[Reading]] = Seq.tabulate(count) { i =>
    Seq.fill(rows) {
      val key = if (random.nextInt(20) == 0) None else Some(s"key ${random.nextInt(30)}")
      Reading(i * 8L + random.nextInt(30), key, Option.when(random.nextInt(9) > 0)(random.nextLong() % 1000))
    }
  }

  private def withInput(count: Int, rows: Int)(body: Path => Unit): Unit = TemporaryFolder.use { folder =>
    batches(new Random(seed), count, rows).foreach(write(folder, _))
    body(folder)
  }

  for ((window, spec) <- Seq("tumbling" -> Asked.tumbling(10000000L, 0), "session" -> Asked.session(3000000L)))
    test(s"one task for both partitions gives and counts what two do: $window windows (seed $seed)") {
      withInput(count = 6, rows = 40) { input =>
        val inTurn = run(windowed(read(input), spec))
        val two = run(apart(windowed(read(input), spec)))
        assert(inTurn.isInTurn, inTurn.plan)
        assert(!two.isInTurn, two.plan)
        assert(inTurn.panes.nonEmpty)
        assertEquals(inTurn.panes, two.panes)
        assertEquals(inTurn.counts, two.counts)
        assertEquals(inTurn.progress.map(_.stateOperators.head.numShufflePartitions).distinct, Seq(2L))
      }
    }

  test(s"Spark gets the versions of both partitions (seed $seed)") {
    withInput(count = 4, rows = 40) { input =>
      withSettings("spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2") {
        val inTurn = run(windowed(read(input)))
        assert(inTurn.isInTurn, inTurn.plan)
        assertEquals(inTurn.panes, run(apart(windowed(read(input)))).panes)
      }
    }
  }

  test(s"a query continues after batches with a task for each partition, and vice versa (seed $seed)") {
    TemporaryFolder.use { folder =>
      val (input, checkpoint) = (folder.resolve("input"), folder.resolve("checkpoint"))
      val parts = batches(new Random(seed), count = 8, rows = 40).grouped(2).zipWithIndex.map { case (two, i) =>
        two.foreach(write(input, _))
        val panes = windowed(read(input))
        val part = run(if (i % 2 == 0) panes else apart(panes), checkpoint)
        assertEquals(part.isInTurn, i % 2 == 0)
        part.panes
      }
      assertEquals(parts.flatten.toList.sorted, run(windowed(read(input))).panes.sorted)
    }
  }

  test(s"a task that fails once one partition is committed leaves a batch that is done again (seed $seed)") {
    TemporaryFolder.use { folder =>
      val (input, checkpoint) = (folder.resolve("input"), folder.resolve("checkpoint"))
      batches(new Random(seed), count = 6, rows = 40).foreach(write(input, _))
      val places = Places.reset()
      val panes = windowed(read(input))
      def part(failing: Boolean): List[String] = {
        val rows = List.newBuilder[String]
        val query = panes.writeStream
          .foreachBatch { (batch: DataFrame, number: Long) =>
            // The first of those that close panes: not each does.
            val fails = failing && number >= 3
            if (fails) places.set(0)
            val partition = F.pmod(F.hash(F.col("key")), F.lit(2))
            val checked = batch.withColumn("place", partition).rdd.map { row =>
              val place = row.getInt(row.fieldIndex("place"))
              // The rows of the second partition are read after the first is committed.
              if (fails && place == 1) throw new IllegalStateException("the task ends here")
              if (fails) Places.visits.incrementAndGet()
              Row.fromSeq(row.toSeq.init).toString
            }
            rows ++= checked.collect().map(row => s"$number: $row").sorted
            ()
          }
          .option("checkpointLocation", checkpoint.toString)
          .trigger(Trigger.AvailableNow())
          .start()
        if (failing) intercept[StreamingQueryException](query.awaitTermination())
        else query.awaitTermination()
        rows.result()
      }
      val before = part(failing = true)
      assert(clue(places.get) > 0)
      assertEquals(before ++ part(failing = false), run(windowed(read(input))).panes)
    }
  }

  test("a batch without rows closes due panes in both partitions") {
    withSettings("spark.sql.streaming.noDataMicroBatches.enabled" -> "true") {
      TemporaryFolder.use { input =>
        val keys = (1 to 20).map(i => Some(s"key $i"))
        write(input, keys.map(Reading(1, _, Some(1L))) :+ Reading(17, Some("last"), Some(2L)))
        val result = run(windowed(read(input)))
        assert(result.isInTurn, result.plan)
        assertEquals(result.progress.map(_.numInputRows), Seq(21L, 0L))
        assertEquals(result.panes.length, 20)
      }
    }
  }

  test(s"a batch's function gets one partition, and may group and join it (seed $seed)") {
    withInput(count = 4, rows = 40) { input =>
      TemporaryFolder.use { folder =>
        var partitions = Set.empty[Int]
        var grouped = 0L
        val check: (DataFrame, Long) => Unit = (batch, _) => {
          partitions += batch.rdd.getNumPartitions
          val keys = batch.groupBy("key").agg(F.sum("n").as("all"))
          val joined = batch.join(keys, batch("key") <=> keys("key")).drop(keys("key"))
          grouped += keys.agg(F.coalesce(F.sum("all"), F.lit(0L))).head().getLong(0)
          assertEquals(joined.count(), batch.count())
        }
        windowed(read(input)).writeStream
          .foreachBatch(check)
          .option("checkpointLocation", folder.resolve("checkpoint").toString)
          .trigger(Trigger.AvailableNow())
          .start()
          .awaitTermination()
        // The first batch has a task for each partition.
        assertEquals(partitions, Set(1, 2))
        val of = run(windowed(read(input)))
        assert(grouped > 0)
        assert(of.isInTurn)
      }
    }
  }

  test("projections, filters and a sink may be above") {
    withInput(count = 3, rows = 20) { input =>
      TemporaryFolder.use { folder =>
        val query = windowed(read(input))
          .where(F.col("n") > 1)
          .select(F.col("key"), (F.col("n") + 1).as("more"))
          .writeStream
          .format("noop")
          .option("checkpointLocation", folder.resolve("checkpoint").toString)
          .trigger(Trigger.AvailableNow())
          .start()
        query.awaitTermination()
        val plan = lastPlan(query)
        assert(plan.exists(_.isInstanceOf[PartitionsInTurnExec]), plan)
      }
    }
  }

  for (
    (what, panesOf) <- Seq[(String, DataFrame => DataFrame)](
      "a function of the user's above" -> (rows => apart(windowed(rows))),
      "windows that overlap" -> (rows => windowed(rows, Asked.sliding(20000000L, 5000000L, 0))),
      "windows that rows bring" -> (rows => windowed(rows, Asked.custom())),
      "emitted late rows" -> (rows => windowed(rows, late = "emit")),
      "a number of the partition above" -> (rows => windowed(rows).withColumn("place", F.spark_partition_id())),
      "another operator with state above" -> (rows => windowed(rows).dropDuplicates("key", "n")),
      "windows of windows" -> { rows =>
        val timed = windowed(rows).withColumn("at", F.window_time(F.col("window")))
        val again = Asked.options.withTime(F.col("at"))
        Asked.windowed(timed, Asked.tumbling(60000000L, 0), Array(F.col("key")), again, Array(F.sum("n").as("n")))
      },
      "rows that a function makes several of" -> (rows => windowed(rows).withColumn("n", F.explode(F.array("n", "n"))))
    )
  ) test(s"each partition has a task where there is $what") {
    withInput(count = 3, rows = 20) { input =>
      val result = run(panesOf(read(input)))
      assert(!result.isInTurn, result.plan)
      assert(clue(result.progress.map(_.numInputRows).sum) > 0)
    }
  }

  test("each partition has a task where state is large, or nobody has said how large it is") {
    TemporaryFolder.use { folder =>
      val (input, checkpoint) = (folder.resolve("input"), folder.resolve("checkpoint"))
      val few = Seq(Reading(1, Some("key"), Some(1L)))
      write(input, few)
      assert(!run(windowed(read(input)), checkpoint).isInTurn)
      write(input, few)
      assert(!run(windowed(read(input)), checkpoint).isInTurn)
      write(input, few)
      write(input, few)
      assert(run(windowed(read(input)), checkpoint).isInTurn)
      write(input, Seq.tabulate(PartitionsInTurn.MostRecords.toInt)(i => Reading(1, Some(s"key $i"), None)))
      write(input, few)
      assert(!run(windowed(read(input)), checkpoint).isInTurn)
    }
  }

  test("each partition has a task where they are many") {
    withInput(count = 2, rows = 20) { input =>
      withSettings("spark.sql.shuffle.partitions" -> "3") {
        val result = run(windowed(read(input)))
        assert(result.plan.exists(_.isInstanceOf[ReadByEachTaskExec]), result.plan)
      }
    }
  }
}

private object PartitionsInTurnSuite {

  final case class Run(panes: List[String], plan: SparkPlan, progress: Seq[StreamingQueryProgress]) {
    def isInTurn: Boolean = plan.exists(_.isInstanceOf[PartitionsInTurnExec])

    /** All counts, without times and sizes. */
    def counts: Seq[Seq[(String, Any)]] = progress.map { batch =>
      val operator = batch.stateOperators.head
      Seq(
        "batch" -> batch.batchId,
        "input" -> batch.numInputRows,
        "watermark" -> batch.eventTime.get("watermark"),
        "total" -> operator.numRowsTotal,
        "updated" -> operator.numRowsUpdated,
        "removed" -> operator.numRowsRemoved,
        "dropped" -> operator.numRowsDroppedByWatermark,
        "stores" -> operator.numStateStoreInstances
      ) ++ own(operator)
    }

    private def own(operator: StateOperatorProgress) =
      Seq("rowsLate", "panesOpen", "firingsClose", "stateRowsRead").map { name =>
        name -> operator.customMetrics.get(name)
      }
  }

  /** Observations of tasks, which run in this JVM. */
  object Places {
    val visits = new AtomicInteger

    def reset(): AtomicInteger = {
      visits.set(0)
      visits
    }
  }
}
