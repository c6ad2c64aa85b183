package org.apache.spark.sql.mullion.operator

import scala.util.Random

import org.apache.spark.SparkEnv
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Ascending, Attribute, SortOrder, XxHash64}
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.{SortExec, SparkPlan}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.state.record.KeyOrder
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.{DataFrame, Encoders, Row}

import dev.mullion.{TestSeed, _}

/** Compares the operator's sort with Spark's node. */
class SortByKeySuite extends SparkSuite {
  private val seed = TestSeed.value

  override protected def settings: Seq[(String, String)] =
    Seq("spark.sql.extensions" -> classOf[MullionExtensions].getName, "spark.sql.adaptive.enabled" -> "false")

  private def planOf(rows: DataFrame): SparkPlan = rows.asInstanceOf[Dataset[Row]].queryExecution.executedPlan

  /** The rows of each partition. */
  private def rowsOf(plan: SparkPlan): Seq[Seq[Row]] = {
    val toRow = CatalystTypeConverters.createToScalaConverter(plan.schema)
    val types = plan.schema
    plan
      .execute()
      .mapPartitions(rows => Iterator(rows.map(row => row.copy()).toArray[InternalRow]))
      .collect()
      .toSeq
      .map(_.toSeq.map(row => toRow(InternalRow.fromSeq(row.toSeq(types))).asInstanceOf[Row]))
  }

  private def random(rows: Int): DataFrame = spark
    .range(0L, rows.toLong, 1L, 2)
    .select(
      when(col("id") % 11 === 0, lit(null)).otherwise(xxhash64(col("id"), lit(seed)) % 500).as("k"),
      repeat(lit("a"), (col("id") % 300).cast("int")).as("text"),
      col("id").as("arrival")
    )

  private def byHash(of: Seq[Attribute]): Seq[SortOrder] = Seq(SortOrder(new XxHash64(of.take(1)), Ascending))

  private def byWord(of: Seq[Attribute]): Seq[SortOrder] = KeyOrder.ordering(of.take(1))

  test(s"rows of a partition are in order, as Spark's node has them, in memory and spilled (seed $seed)") {
    val threshold = "spark.shuffle.spill.numElementsForceSpillThreshold"
    for (spilled <- Seq(false, true)) {
      if (spilled) SparkEnv.get.conf.set(threshold, "300")
      try {
        val plan = planOf(random(3000))
        val total = Seq(plan.output.head, plan.output.last).map(SortOrder(_, Ascending))
        val sorted = SortByKeyExec(total, plan)
        assertEquals(rowsOf(sorted), rowsOf(SortExec(total, global = false, plan)))
        assertEquals(sorted.metrics("spillSize").value > 0, spilled)
        // One number per row, and only that is compared: rows of one number are in any order.
        for (number <- Seq(byHash(plan.output), byWord(plan.output))) {
          val sorted = rowsOf(SortByKeyExec(number, plan))
          val model = rowsOf(SortExec(number, global = false, plan))
          assertEquals(sorted.map(_.map(_.get(0))), model.map(_.map(_.get(0))))
          assertEquals(sorted.map(_.map(_.getLong(2)).sorted), model.map(_.map(_.getLong(2)).sorted))
        }
      } finally if (spilled) SparkEnv.get.conf.remove(threshold)
    }
  }

  test("few rows take a megabyte, whatever the size of Spark's pages") {
    val plan = planOf(spark.range(0, 100, 1, 1).toDF())
    val sorted = SortByKeyExec(Seq(SortOrder(plan.output.head, Ascending)), plan)
    rowsOf(sorted)
    assert(clue(sorted.metrics("peakMemory").value) < (2L << 20))
  }

  test("a row that is larger than a page is sorted with the others") {
    val rows = spark.range(0, 5, 1, 1).select((lit(9) - col("id")).as("k"), repeat(lit("a"), 3 << 20).as("text"))
    val plan = planOf(rows)
    val sorted = rowsOf(SortByKeyExec(Seq(SortOrder(plan.output.head, Ascending)), plan)).flatten
    assertEquals(sorted.map(_.getLong(0)), Seq(5L, 6L, 7L, 8L, 9L))
    assert(sorted.forall(_.getString(1).length == (3 << 20)))
  }

  test("half of a task's table of pages holds all memory, and no page is larger than Spark's") {
    val (mega, giga) = (1L << 20, 1L << 30)
    assertEquals(SortByKeyExec.pageBytes(giga / 2, 4 * mega), mega)
    assertEquals(SortByKeyExec.pageBytes(giga, 16 * mega), mega)
    assertEquals(SortByKeyExec.pageBytes(8 * giga, 64 * mega), 2 * mega)
    assertEquals(SortByKeyExec.pageBytes(200 * giga, 64 * mega), 64 * mega)
    assertEquals(SortByKeyExec.pageBytes(900 * giga, 64 * mega), 64 * mega)
    val random = new Random(seed)
    for (_ <- 0 until 1000) {
      val all = (random.nextDouble() * 250 * giga).toLong
      val page = SortByKeyExec.pageBytes(all, 64 * mega)
      assert(page * 4096 >= all && java.lang.Long.bitCount(page) == 1, s"$page of $all")
    }
  }

  test("it replaces Spark's node below the operator of a window, and nowhere else") {
    TemporaryFolder.use { folder =>
      val input = MemoryStream[(Long, String)](spark, 2)(Encoders.product[(Long, String)])
      input.addData((1L, "a"), (2L, "b"))
      val panes = input
        .toDF()
        .select(timestamp_seconds(col("_1")).as("ts"), col("_2").as("k"))
        .withWatermark("ts", "0 seconds")
        .windowed(Tumbling("10 seconds"), time = "ts", by = Seq(col("k")))
        .agg(count(lit(1)).as("n"))
        .writeStream
        .option("checkpointLocation", folder.toString)
      val query = panes
        .foreachBatch((batch: DataFrame, _: Long) => { batch.sort("k").collect(); () })
        .start()
      try {
        query.processAllAvailable()
        val plan = lastPlan(query)
        val operators = plan.collect { case operator: WindowExec => operator }
        assertEquals(operators.map(_.child.getClass.getName), Seq(classOf[SortByKeyExec].getName))
        assertEquals(plan.collect { case sort: SortExec => sort }, Nil)
        val own = planOf(spark.range(5).toDF().sort(col("id").desc))
        assert(own.exists(_.isInstanceOf[SortExec]) && !own.exists(_.isInstanceOf[SortByKeyExec]))
      } finally query.stop()
    }
  }
}
