package org.apache.spark.sql.mullion.expressions.functions

import scala.util.Random

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.SparkSuite

import dev.mullion.{MullionExtensions, TestSeed}

class TopNSuite extends SparkSuite {
  override protected def settings: Seq[(String, String)] =
    Seq("spark.sql.extensions" -> classOf[MullionExtensions].getName, "spark.sql.shuffle.partitions" -> "3")

  test("the largest rows of each group are the first of an ORDER BY, in any order of rows and partitions") {
    val seed = TestSeed.value
    val random = new Random(seed)
    val rows = Seq.fill(400) {
      val order = if (random.nextInt(9) == 0) None else Some(Seq(Double.NaN, -0.0, 0.0, 1.5, -3.0)(random.nextInt(5)))
      (
        random.nextInt(4),
        order,
        if (random.nextInt(7) == 0) None else Some(s"item ${random.nextInt(30)}"),
        random.nextInt(9)
      )
    }
    val input = spark.createDataFrame(rows).toDF("k", "x", "item", "v").repartition(5)
    for (n <- Seq(1, 3, 1000)) {
      val top = input
        .groupBy("k")
        .agg(
          call_function("mullion_top_n", lit(n), col("x"), col("item"), col("v")).as("top"),
          call_function("mullion_top_n", lit(n), col("x"), map(coalesce(col("item"), lit("")), col("v"))).as(
            "unordered"
          )
        )
        .where("size(unordered) = size(top)")
        .select("k", "top")
        .collect()
        .map(row => row.getInt(0) -> row.getSeq[Row](1).map(_.toSeq).toSeq)
        .toMap
      input.createOrReplaceTempView("rows")
      (0 until 4).foreach { k =>
        val first = spark
          .sql(s"SELECT item, v FROM rows WHERE k = $k ORDER BY x DESC, item, v LIMIT $n")
          .collect()
          .map(_.toSeq)
          .toSeq
        assertEquals(top(k), first, s"seed $seed, n $n, group $k")
      }
    }
  }
}
