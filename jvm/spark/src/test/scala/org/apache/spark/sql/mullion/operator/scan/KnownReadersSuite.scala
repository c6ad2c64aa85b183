package org.apache.spark.sql.mullion.operator.scan

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.datasources.json.JsonFileFormat
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.types.{LongType, StringType, StructType}
import org.apache.spark.sql.{functions => F}

import dev.mullion.{Asked, MullionExtensions}

/** The scans that share a file reader. */
class KnownReadersSuite extends SparkSuite {
  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.extensions" -> classOf[MullionExtensions].getName
  )

  private val longs = new StructType().add("a", LongType)
  private val texts = new StructType().add("a", StringType)

  private val request = KnownReaders.Asked(
    classOf[ParquetFileFormat],
    longs,
    longs,
    longs,
    Map("option" -> "1"),
    Map("a.name" -> "a value").asJava,
    Seq(Map("spark.a" -> "1"), Map("spark.b" -> "1"))
  )

  private def reader(): KnownReaders.Reader = new NoRows

  test("a scan has the reader of another that asks for the same, and of no other") {
    val readers = new KnownReaders
    val first = readers(spark, request)(reader())
    assert(readers(spark, request.copy(hadoop = Map("a.name" -> "a value").asJava))(reader()) eq first)
    val others = Seq(
      request.copy(format = classOf[JsonFileFormat]),
      request.copy(data = texts),
      request.copy(partition = texts),
      request.copy(required = texts),
      request.copy(options = Map("option" -> "2")),
      request.copy(hadoop = Map("a.name" -> "another").asJava),
      request.copy(settings = Seq(Map("spark.a" -> "1"), Map("spark.b" -> "2")))
    )
    others.foreach(other => assert(readers(spark, other)(reader()) ne first, other))
    assert(readers(spark.newSession(), request)(reader()) ne first)
    assert(readers(spark, request)(reader()) eq first)
  }

  test("a session keeps the readers that were made last") {
    val readers = new KnownReaders
    val first = readers(spark, request)(reader())
    for (i <- 1 to KnownReaders.MostOfSession)
      readers(spark, request.copy(options = Map("option" -> s"other $i")))(reader())
    assert(readers(spark, request)(reader()) ne first)
  }

  test("settings are compared by their current values") {
    val hadoop = new Configuration(false)
    hadoop.set("a.name", "1")
    val before = new SettingsAlone(hadoop).all
    assertEquals(new SettingsAlone(hadoop).all, before)
    hadoop.set("a.name", "2")
    assertNotEquals(new SettingsAlone(hadoop).all, before)
  }

  for (format <- Seq("parquet", "orc", "json", "csv"))
    test(s"batches of $format files that are read by one reader have the rows of their files") {
      TemporaryFolder.use { folder =>
        val input = folder.resolve("input").toString
        for (i <- 0 until 5)
          spark
            .range(i * 10L, i * 10L + 10L)
            .select(F.timestamp_seconds(F.col("id")).as("ts"), F.col("id"))
            .repartition(1)
            .write
            .mode("append")
            .format(format)
            .save(input)
        val rows = spark.readStream
          .schema("ts timestamp, id bigint")
          .format(format)
          .option("maxFilesPerTrigger", "1")
          .load(input)
          .withWatermark("ts", "1 minute")
        val options = Asked.options.withTime(F.col("ts")).withCloseAtEnd
        val sums = Array(F.sum("id").as("sum"), F.count("*").as("n"))
        val query = Asked
          .windowed(rows, Asked.tumbling(1000000000L, 0), Array(F.lit(1).as("k")), options, sums)
          .writeStream
          .format("memory")
          .queryName(s"rows_of_$format")
          .option("checkpointLocation", folder.resolve("checkpoint").toString)
          .trigger(Trigger.AvailableNow())
          .start()
        query.awaitTermination()
        val results =
          spark.table(s"rows_of_$format").select("sum", "n").collect().map(r => (r.getLong(0), r.getLong(1)))
        assertEquals(results.toSeq, Seq((1225L, 50L)))
      }
    }
}

private final class NoRows extends (PartitionedFile => Iterator[InternalRow]) {
  override def apply(file: PartitionedFile): Iterator[InternalRow] = Iterator.empty
}
