package org.apache.spark.sql.mullion.operator.assign

import java.sql.Timestamp

import org.apache.spark.scheduler.{SparkListener, SparkListenerStageCompleted}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.sql.{functions => F, DataFrame, Encoders}

import dev.mullion.Asked

/** Queries whose state is in one partition, over sources of one partition and of several. */
class OneTaskSuite extends SparkSuite {

  override protected def cores: Int = 2

  override protected def settings: Seq[(String, String)] = Seq("spark.sql.shuffle.partitions" -> "1")

  private def windowed(rows: DataFrame, late: String): DataFrame = {
    val options = Asked.options.withTime(F.col("ts")).withLate(late)
    Asked.windowed(rows, Asked.tumbling(10000000L, 0), Array(F.col("k")), options, Array(F.count("*").as("count")))
  }

  /** The output of a query over a source with this number of partitions, and the numbers of its batches' stages. */
  private def run(partitions: Int, late: String): (Set[(Long, Long, Boolean)], Set[Int]) = TemporaryFolder.use {
    folder =>
      val source = MemoryStream[Moment](spark, partitions)(Encoders.product[Moment])
      val rows = source.toDF().withWatermark("ts", "0 seconds")
      val stages = new CountsStages
      spark.sparkContext.addSparkListener(stages)
      val table = s"rows_${partitions}_$late"
      val query = windowed(rows, late).writeStream
        .format("memory")
        .queryName(table)
        .option("checkpointLocation", folder.resolve("checkpoint").toString)
        .start()
      try {
        for (seconds <- Seq(Seq(1, 2, 3, 11), Seq(12, 25, 26), Seq(4, 40, 41))) {
          source.addData(seconds.map(s => Moment(new Timestamp(s * 1000L), 7)))
          query.processAllAvailable()
        }
        assertEquals(exchanges(query), 0)
      } finally {
        query.stop()
        heard(stages)
      }
      val panes = spark.table(table).select(F.unix_seconds(F.col("window.start")), F.col("count"), F.col("pane.firing"))
      val results = panes.collect().map { row =>
        def long(at: Int) = if (row.isNullAt(at)) -1L else row.getLong(at)
        (long(0), long(1), row.getString(2) == "late")
      }
      (results.toSet, stages.ofJobs)
  }

  private def heard(stages: CountsStages): Unit = {
    spark.sparkContext.listenerBus.waitUntilEmpty()
    spark.sparkContext.removeSparkListener(stages)
  }

  private def exchanges(query: StreamingQuery): Int = {
    val plan = lastPlan(query)
    assert(plan.exists(_.isInstanceOf[OneTaskExec]), plan)
    plan.collect { case e: ShuffleExchangeExec => e }.length
  }

  private val panes = Set((0L, 3L, false), (10L, 2L, false), (20L, 2L, false))

  for (late <- Seq("drop", "emit")) {
    val expected = if (late == "emit") panes + ((-1L, -1L, true)) else panes

    test(s"a batch whose rows are in one partition runs in one stage (late rows: $late)") {
      val (results, stages) = run(1, late)
      assertEquals(results, expected)
      assertEquals(stages, Set(0))
    }

    test(s"rows of several partitions are brought into one by a shuffle (late rows: $late)") {
      val (results, stages) = run(3, late)
      assertEquals(results, expected)
      assert(clue(stages).contains(1))
    }
  }

  test("a batch over one file runs in one stage, and one over several files gives the same") {
    TemporaryFolder.use { folder =>
      val input = folder.resolve("input").toString
      def write(files: Int): Unit = spark
        .range(100)
        .select(F.timestamp_seconds(F.col("id")).as("ts"), F.lit(1L).as("k"))
        .repartition(files)
        .write
        .mode("append")
        .parquet(input)
      write(1)
      val rows = spark.readStream.schema("ts timestamp, k long").parquet(input).withWatermark("ts", "0 seconds")
      val stages = new CountsStages
      def run(): Unit = windowed(rows, "drop").writeStream
        .format("noop")
        .option("checkpointLocation", folder.resolve("checkpoint").toString)
        .trigger(Trigger.AvailableNow())
        .start()
        .awaitTermination()
      spark.sparkContext.addSparkListener(stages)
      try run()
      finally heard(stages)
      assertEquals(stages.ofJobs, Set(0))
      write(3)
      run()
    }
  }
}

final case class Moment(ts: Timestamp, k: Long)

/** Counts the shuffle stages below the completed stages. */
private final class CountsStages extends SparkListener {
  @volatile var ofJobs: Set[Int] = Set.empty
  override def onStageCompleted(stage: SparkListenerStageCompleted): Unit = synchronized {
    ofJobs += stage.stageInfo.parentIds.length
  }
}
