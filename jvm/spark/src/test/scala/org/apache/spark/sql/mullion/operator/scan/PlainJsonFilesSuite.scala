package org.apache.spark.sql.mullion.operator.scan

import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Path}

import scala.util.Random

import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.{functions => F, DataFrame, Row}

import dev.mullion.{Asked, MullionExtensions, TestSeed}

/** Files of JSON below windows, compared with the rows that Spark's own reader returns. */
class PlainJsonFilesSuite extends SparkSuite {
  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.extensions" -> classOf[MullionExtensions].getName
  )

  private val seed = TestSeed.value
  private val columns = "ts timestamp, k string, v bigint, price double, inner struct<x: int>, _corrupt_record string"

  /** Lines of plain texts, and of texts that only Spark's parser reads. */
  private def lines: Seq[String] = {
    val random = new Random(seed)
    def one(of: String*) = of(random.nextInt(of.length))
    Seq.fill(2000) {
      val second = random.nextInt(60)
      val fields = Seq(
        s""""ts": "${one(f"2026-01-02T03:04:$second%02dZ", f"2026-01-02 03:04:$second%02d.5", "yesterday")}"""",
        s""""k": ${one("\"a\"", "\"é\"", "1.50", "null", "[1 , 2]")}""",
        s""""v": ${one("1", "2", "3", "\"4\"", "1e2", "99999999999999999999")}""",
        s""""price": ${one("1", "2.5", "\"NaN\"", "NaN", "true")}""",
        s""""inner": ${one("{\"x\": 1}", "{\"x\": \"a\"}", "{}", "3")}"""
      )
      val text = random.shuffle(fields).take(1 + random.nextInt(5)).mkString("{", ", ", "}")
      one(text, text, text, text, s"[$text, $text]", "{'v': 1}", text.dropRight(1), "", " ", s"\ufeff$text")
    }
  }

  /** Each row of a stream in a window of its second, as text. */
  private def rowsBelowWindows(folder: Path, options: Map[String, String]): Seq[String] = {
    val rows = spark.readStream.schema(columns).options(options).json(folder.resolve("input").toString)
    val timed = described(rows).withColumn("at", F.lit("2026-01-02T03:00:00Z").cast("timestamp"))
    Asked
      .windowed(
        timed.withWatermark("at", "1 hour"),
        Asked.tumbling(10000000L, 0),
        Array(F.lit(1).as("one")),
        Asked.options.withTime(F.col("at")).withCloseAtEnd,
        Array(F.collect_list("row").as("rows"))
      )
      .writeStream
      .foreachBatch((panes: DataFrame, _: Long) => panes.select("rows").write.mode("append").json(s"$folder/output"))
      .option("checkpointLocation", folder.resolve("checkpoint").toString)
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()
    spark.read.json(s"$folder/output").select(F.explode(F.col("rows"))).collect().map(_.getString(0)).toSeq.sorted
  }

  private def described(rows: DataFrame): DataFrame =
    rows.select(F.to_json(F.struct(rows.columns.map(F.col).toIndexedSeq: _*)).as("row"))

  for (
    options <- Seq(
      Map.empty[String, String],
      Map("mode" -> "DROPMALFORMED"),
      Map("timestampFormat" -> "yyyy-MM-dd HH:mm:ss.S", "allowSingleQuotes" -> "false"),
      Map("encoding" -> "UTF-8"),
      Map("prefersDecimal" -> "true", "lineSep" -> "}")
    )
  )
    test(s"the rows of random lines are those of Spark's reader, with the options $options (seed $seed)") {
      TemporaryFolder.use { folder =>
        Files.createDirectories(folder.resolve("input")): Unit
        for ((part, i) <- lines.grouped(700).zipWithIndex)
          Files.write(folder.resolve(s"input/$i.json"), part.mkString("\n").getBytes(StandardCharsets.UTF_8)): Unit
        val ofSpark = described(spark.read.schema(columns).options(options).json(folder.resolve("input").toString))
        val expected = ofSpark.collect().map((row: Row) => row.getString(0)).toSeq.sorted
        assert(clue(expected.length) > 500)
        assertEquals(rowsBelowWindows(folder, options), expected)
      }
    }

  test("a line that is no JSON fails a query with FAILFAST") {
    TemporaryFolder.use { folder =>
      Files.createDirectories(folder.resolve("input")): Unit
      Files.write(folder.resolve("input/0.json"), "{\"v\": 1}\n{\"v\": \"x\"}".getBytes(StandardCharsets.UTF_8)): Unit
      val error = intercept[Exception](rowsBelowWindows(folder, Map("mode" -> "FAILFAST")))
      assert(
        Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ ne null).exists(_.toString.contains("FAILFAST"))
      )
    }
  }
}
