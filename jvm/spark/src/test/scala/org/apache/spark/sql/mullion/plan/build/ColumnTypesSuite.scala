package org.apache.spark.sql.mullion.plan.build

import java.nio.file.Path

import org.apache.spark.sql.api.java.UDF1
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.types._
import org.apache.spark.sql.{functions => F, Column, DataFrame, Row}

import dev.mullion.{Asked, MullionException, MullionExtensions}

/** Columns of every type of Spark as keys and as values: windows return what Spark's own window returns, or reject the
  * type when they are built, with a form of it that is accepted.
  */
class ColumnTypesSuite extends SparkSuite {
  import ColumnTypesSuite._

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.extensions" -> classOf[MullionExtensions].getName,
    "spark.sql.shuffle.partitions" -> "1",
    "spark.sql.timeType.enabled" -> "true",
    "spark.sql.geospatial.enabled" -> "true"
  )

  private lazy val ids: Path = {
    val folder = TemporaryFolder.make().resolve("ids")
    spark.range(20).coalesce(1).write.parquet(folder.toString)
    folder
  }

  override def afterAll(): Unit = {
    TemporaryFolder.delete(ids.getParent)
    super.afterAll()
  }

  private def rows(kind: Kind, isStream: Boolean): DataFrame = {
    val read =
      if (isStream) spark.readStream.schema("id bigint").parquet(ids.toString) else spark.read.parquet(ids.toString)
    val timed = read.select(F.col("id"), F.timestamp_seconds(F.col("id")).as("ts"), kind.column.as("x"))
    if (isStream) timed.withWatermark("ts", "1 hour") else timed
  }

  private def windowed(rows: DataFrame, by: Seq[Column], aggregates: Seq[Column]): DataFrame = {
    val options = Asked.options.withTime(F.col("ts"))
    val chosen = if (rows.isStreaming) options.withCloseAtEnd else options
    Asked.windowed(rows, Asked.tumbling(10000000L, 0), by.toArray, chosen, aggregates.toArray).drop("pane")
  }

  private def sparks(rows: DataFrame, by: Seq[Column], aggregates: Seq[Column]): DataFrame =
    rows
      .groupBy(by :+ F.window(F.col("ts"), "10 seconds").as("window"): _*)
      .agg(aggregates.head, aggregates.tail: _*)

  private def result(df: DataFrame): Seq[String] = {
    val results = Seq.newBuilder[Row]
    if (!df.isStreaming) results ++= df.collect()
    else
      TemporaryFolder.use { folder =>
        val add: (DataFrame, Long) => Unit = (batch, _) => results.synchronized { results ++= batch.collect(); () }
        df.writeStream
          .foreachBatch(add)
          .option("checkpointLocation", folder.resolve("checkpoint").toString)
          .trigger(Trigger.AvailableNow())
          .start()
          .awaitTermination()
      }
    results.result().map(row => row.toSeq.map(text).mkString(" | ")).sorted
  }

  private def text(value: Any): String = value match {
    case bytes: Array[Byte] => bytes.mkString("bytes ", " ", "")
    case many: Iterable[_]  => many.map(text).mkString("[", ", ", "]")
    case row: Row           => row.toSeq.map(text).mkString("{", ", ", "}")
    case other              => s"$other"
  }

  private val n = Seq(F.count("*").as("n"))
  private val columnsOfState = Seq(
    F.max_by(F.col("x"), F.col("id")).as("last"),
    F.min_by(F.col("x"), F.col("id")).as("first"),
    F.count(F.col("x")).as("n")
  )

  private def isIn(kind: Kind): Boolean = ordered(spark.version) >= ordered(kind.since)

  for (kind <- kinds) {
    test(s"keys of ${kind.name}") {
      assume(isIn(kind), s"Spark ${spark.version} does not have the type")
      for (isStream <- Seq(false, true)) {
        val input = rows(kind, isStream)
        kind.key match {
          case Supported =>
            assertEquals(
              result(windowed(input, Seq(F.col("x")), n)),
              result(sparks(rows(kind, false), Seq(F.col("x")), n))
            )
          case Rejected(fix, form, inStreamsAlone) if isStream || !inStreamsAlone =>
            val error = intercept[MullionException](windowed(input, Seq(F.col("x")), n)).getMessage
            assert(clue(error).contains(fix))
            val by = Seq(form.as("x"))
            assertEquals(result(windowed(input, by, n)), result(sparks(rows(kind, false), by, n)))
          case _ =>
            assertEquals(
              result(windowed(input, Seq(F.col("x")), n)),
              result(sparks(rows(kind, false), Seq(F.col("x")), n))
            )
        }
      }
    }

    test(s"values of ${kind.name}") {
      assume(isIn(kind), s"Spark ${spark.version} does not have the type")
      for (isStream <- Seq(false, true))
        assertEquals(
          result(windowed(rows(kind, isStream), Nil, columnsOfState)),
          result(sparks(rows(kind, false), Nil, columnsOfState))
        )
    }
  }

  test("a key that holds a subquery is rejected with a column that is accepted") {
    val kind = kinds.head
    for (isStream <- Seq(false, true)) {
      val input = rows(kind, isStream)
      val key = F.expr("id % (SELECT max(id) FROM range(3))").as("k")
      val error = intercept[MullionException](windowed(input, Seq(key), n)).getMessage
      assert(clue(error).contains("A key of by = has a subquery"))
      assert(clue(error).contains("df.withColumn('key', ...)"))
      val expected = result(sparks(rows(kind, false).withColumn("k", F.expr("id % 2")), Seq(F.col("k")), n))
      assertEquals(result(windowed(input.withColumn("k", key), Seq(F.col("k")), n)), expected)
    }
  }

  test("a value that holds a subquery is rejected with a column that is accepted") {
    val kind = kinds.head
    for (isStream <- Seq(false, true)) {
      val input = rows(kind, isStream)
      val sum = Seq(F.expr("sum(id * (SELECT max(id) FROM range(3)))").as("s"))
      assert(clue(intercept[MullionException](windowed(input, Nil, sum)).getMessage).contains("df.withColumn(...)"))
      val column = input.withColumn("v", F.expr("id * (SELECT max(id) FROM range(3))"))
      val expected = result(sparks(rows(kind, false), Nil, Seq(F.expr("sum(id * 2)").as("s"))))
      assertEquals(result(windowed(column, Nil, Seq(F.sum("v").as("s")))), expected)
    }
  }
}

private object ColumnTypesSuite {

  sealed trait Outcome
  case object Supported extends Outcome

  /** @param fix
    *   the fix in the message
    * @param form
    *   the same in Scala, which is accepted
    */
  final case class Rejected(fix: String, form: Column, inStreamsAlone: Boolean = false) extends Outcome

  final case class Kind(name: String, column: Column, key: Outcome = Supported, since: String = "4.0")

  def ordered(version: String): Int = version.split('.').take(2).map(_.toInt).reduce(_ * 1000 + _)

  private def of(name: String, sql: String, key: Outcome = Supported, since: String = "4.0") =
    Kind(name, F.expr(sql), key, since)

  private def cast(to: String) = Rejected(s"CAST(x AS ${to.takeWhile(_.isLetter).toUpperCase}", F.col("x").cast(to))

  private val point =
    "st_geomfromwkb(unhex(concat('0101000000000000000000F03F00000000000000', if(id % 2 = 0, '40', '00'))))"
  private val place = point.replace("geom", "geog")

  val kinds: Seq[Kind] = Seq(
    of("BOOLEAN", "id % 2 = 0"),
    of("TINYINT", "CAST(id % 2 AS TINYINT)"),
    of("SMALLINT", "CAST(id % 2 AS SMALLINT)"),
    of("INT", "CAST(if(id % 3 = 0, null, id % 2) AS INT)"),
    of("BIGINT", "id % 2"),
    of("FLOAT", "CAST(if(id % 2 = 0, '0.0', '-0.0') AS FLOAT)"),
    of("DOUBLE", "CAST(if(id % 2 = 0, 'NaN', '-1.5') AS DOUBLE)"),
    of("DECIMAL", "CAST(id % 2 AS DECIMAL(38, 18))"),
    of("STRING", "concat('key ', id % 2)"),
    of("BINARY", "CAST(concat('key ', id % 2) AS BINARY)"),
    of("DATE", "date_add(DATE'2024-01-01', CAST(id % 2 AS INT))"),
    of("TIMESTAMP", "timestamp_seconds(id % 2)"),
    of("TIMESTAMP_NTZ", "CAST(timestamp_seconds(id % 2) AS TIMESTAMP_NTZ)"),
    of("TIME", "make_time(1, CAST(id % 2 AS INT), 2.5)", since = "4.2"),
    of("INTERVAL MONTH", "make_ym_interval(0, CAST(id % 2 AS INT))"),
    of("INTERVAL SECOND", "make_dt_interval(0, 0, 0, id % 2)"),
    of(
      "INTERVAL",
      "make_interval(0, CAST(id % 2 AS INT), 0, 1)",
      Rejected("col(\"x\").cast(\"string\")", F.col("x").cast("string"), inStreamsAlone = true)
    ),
    of("ARRAY", "array(id % 2, null)"),
    of("MAP", "map('a', id % 2, 'b', 1)"),
    of("STRUCT", "named_struct('a', id % 2, 'b', array(named_struct('c', 'd')))"),
    of("VOID", "null"),
    of("VARIANT", "parse_json(concat('{\"a\": ', id % 2, '}'))", Rejected("to_json(x)", F.to_json(F.col("x")))),
    of(
      "STRUCT of VARIANT",
      "named_struct('v', parse_json(CAST(id % 2 AS STRING)))",
      Rejected("to_json(x)", F.to_json(F.col("x")))
    ),
    of("GEOMETRY", point, Rejected("st_asbinary(x)", F.call_function("st_asbinary", F.col("x"))), since = "4.2"),
    of("GEOGRAPHY", place, Rejected("st_asbinary(x)", F.call_function("st_asbinary", F.col("x"))), since = "4.2"),
    of(
      "STRUCT of GEOMETRY",
      s"named_struct('a', $point)",
      Rejected("st_asbinary(...) of each value in x", F.struct(F.call_function("st_asbinary", F.col("x.a")))),
      since = "4.2"
    ),
    of(
      "STRING COLLATE UTF8_LCASE",
      "collate(if(id % 2 = 0, 'key', 'KEY'), 'UTF8_LCASE')",
      Rejected("lower(CAST(x AS STRING))", F.lower(F.col("x").cast("string")))
    ),
    of(
      "STRING COLLATE UTF8_BINARY_RTRIM",
      "collate(if(id % 2 = 0, 'key', 'key  '), 'UTF8_BINARY_RTRIM')",
      Rejected("rtrim(CAST(x AS STRING))", F.rtrim(F.col("x").cast("string")))
    ),
    of("STRING COLLATE UNICODE", "collate(concat('key', id % 2), 'UNICODE')", cast("string")),
    of("STRING COLLATE UNICODE_CI_AI", "collate(concat('key', id % 2), 'UNICODE_CI_AI')", cast("string")),
    of("ARRAY of collated", "array(collate(concat('key', id % 2), 'UTF8_LCASE'))", cast("array<string>")),
    of(
      "STRUCT of collated",
      "named_struct('a', collate(concat('key', id % 2), 'UTF8_LCASE'), 'b', 1)",
      cast("struct<a:string,b:int>")
    ),
    of(
      "MAP of collated",
      "map(collate(concat('key', id % 2), 'UNICODE_CI'), id)",
      cast("map<string, bigint>")
    ),
    Kind("a user-defined type", F.udf(new PointOf, new PointType).apply(F.col("id")))
  )

  final case class Point(x: Double)

  final class PointType extends UserDefinedType[Point] {
    override def sqlType: DataType = ArrayType(DoubleType, containsNull = false)
    override def serialize(point: Point): Any = new GenericArrayData(Array(point.x))
    override def deserialize(of: Any): Point = of match {
      case values: ArrayData => Point(values.getDouble(0))
      case other             => throw new IllegalArgumentException(s"$other")
    }
    override def userClass: Class[Point] = classOf[Point]
  }

  final class PointOf extends UDF1[Long, Point] {
    override def call(id: Long): Point = Point((id % 2).toDouble)
  }
}
