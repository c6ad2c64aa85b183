package org.apache.spark.sql.mullion.expressions.functions

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, SpecificInternalRow}
import org.apache.spark.sql.catalyst.expressions.aggregate.HyperLogLogPlusPlus
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.SparkSuite
import org.apache.spark.sql.types.LongType
import org.apache.spark.sql.{Column, DataFrame}

import dev.mullion._

class ApproxDistinctSuite extends SparkSuite {
  override protected def settings: Seq[(String, String)] = Seq("spark.sql.shuffle.partitions" -> "3")

  private val seed = TestSeed.value
  private val value = BoundReference(0, LongType, nullable = true)

  // At 0.39 the sketch has 16 registers, at 0.05 it has 512, at 0.002 it has more than Spark's bias tables cover.
  for (error <- Seq(0.39, 0.2, 0.05, 0.03, 0.02, 0.002))
    test(s"a sketch in parts, each stored and read again, is Spark's with an error of $error (seed $seed)") {
      val random = new Random(seed + (error * 1000).toInt)
      val spark = HyperLogLogPlusPlus(value, error)
      val ours = ApproxDistinct(value, error)
      for (size <- Seq(0, 1, 2, 3, 5, 16, 17, 40, 200, 1000, 5000)) {
        val buffer = new SpecificInternalRow(spark.aggBufferAttributes.map(_.dataType))
        spark.initialize(buffer)
        val distinct = Math.max(1, size - random.nextInt(1 + size / 2))
        val parts = Seq.fill(1 + random.nextInt(3))(ours.createAggregationBuffer())
        for (_ <- 0 until size) {
          val row = InternalRow(random.nextInt(distinct).toLong * 31 + size)
          spark.update(buffer, row)
          ours.update(parts(random.nextInt(parts.length)), row)
        }
        parts.foreach(ours.update(_, InternalRow(null)))
        val merged = parts.map(part => ours.deserialize(ours.serialize(part))).reduce(ours.merge)
        val ofSpark = HllRegisters.ofWords(spark.aggBufferAttributes.indices.map(buffer.getLong).toArray)
        for (registers <- Seq(merged, ofSpark, ours.deserialize(ours.serialize(merged)))) {
          assertEquals(ours.eval(registers), spark.eval(buffer), s"$size rows, $distinct values")
          assert(clue(ours.serialize(registers).length) <= Math.min(8 * spark.aggBufferAttributes.length, 4 * size))
          val row = registers.toRow
          assertEquals(
            spark.aggBufferAttributes.indices.map(row.getLong),
            spark.aggBufferAttributes.indices.map(buffer.getLong)
          )
        }
      }
    }

  test("windows give Spark's estimates of values of any type") {
    val rows = spark
      .range(3000)
      .select(
        timestamp_seconds(col("id") % 60).as("ts"),
        (pow(col("id") % 7, 3)).cast("long").as("k"),
        when(col("id") % 11 > 0, hash(col("id") % 900)).as("v")
      )
      .withColumn("d", when(col("v") % 5 === 0, lit(-0.0)).otherwise((col("v") % 5).cast("double")))
      .withColumn("text", concat(lit("a"), col("v") % 700))
      .withColumn("lower", expr("text COLLATE UTF8_LCASE"))
    val estimates: Seq[Column] = Seq("v", "d", "text", "lower", "struct(d, v)", "array(text)").zipWithIndex.map {
      case (of, i) => expr(s"approx_count_distinct($of)").as(s"e$i")
    } :+ expr("approx_count_distinct(v, 0.01) FILTER (WHERE d > 1)").as("some")
    def sorted(of: DataFrame) = of.orderBy("k", "window").collect().map(_.toString).toSeq
    val columns = Seq(col("k"), col("window")) ++ (estimates.indices.init.map(i => col(s"e$i")) :+ col("some"))
    val ours =
      rows.windowed(Tumbling("10 seconds"), time = "ts", by = Seq(col("k"))).agg(estimates.head, estimates.tail: _*)
    val ofSpark = rows.groupBy(col("k"), window(col("ts"), "10 seconds")).agg(estimates.head, estimates.tail: _*)
    assertEquals(sorted(ours.select(columns: _*)), sorted(ofSpark.select(columns: _*)))
  }
}
