package org.apache.spark.sql.mullion.plan

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.SparkSuite
import org.apache.spark.sql.mullion.expressions.columns.PrunedJson
import org.apache.spark.sql.{functions => F, Column, DataFrame, Row}
import org.apache.spark.sql.types.StructType

import dev.mullion.{Asked, MullionExtensions}

/** The columns of `from_json` that are parsed below windows. */
class PruneJsonSuite extends SparkSuite {
  import spark.implicits._

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.extensions" -> classOf[MullionExtensions].getName
  )

  private val columns = "ts timestamp, k string, note string, v bigint, price double"

  // Not a local relation: the optimizer would evaluate it.
  private def texts: DataFrame = spark.sparkContext.parallelize(examples, 1).toDF("value")

  private val examples = Seq(
    """{"ts": "2026-01-01T00:00:01Z", "k": "a", "note": "x", "v": 1, "price": 2.5}""",
    """{"ts": "2026-01-01T00:00:02Z", "k": "a", "note": "\q", "v": 2}""",
    """{"ts": "2026-01-01T00:00:03Z", "k": "b", "v": "none", "price": "much"}""",
    """{"ts": "2026-01-01T00:00:04Z", "k": "b", "v": 4"""
  )

  private def parsed(ddl: String = columns, options: Map[String, String] = Map.empty): DataFrame = {
    import scala.jdk.CollectionConverters._
    texts.select(F.from_json(F.col("value"), StructType.fromDDL(ddl), options.asJava).as("j"))
  }

  private def windowed(rows: DataFrame, aggregates: Column*): DataFrame = Asked.windowed(
    rows,
    Asked.tumbling(10000000L, 0),
    Array(F.col("k")),
    Asked.options.withTime(F.col("ts")),
    (F.sum("v").as("total") +: aggregates).toArray
  )

  /** The names of the parsed columns, or none if all are. */
  private def pruned(panes: DataFrame): Option[Seq[String]] = panes.queryExecution.optimizedPlan
    .collect { case node => node.expressions.flatMap(_.collect { case json: PrunedJson => json }) }
    .flatten
    .headOption
    .map(_.dataType.asInstanceOf[StructType].fieldNames.toSeq)

  private def answers(panes: => DataFrame): Seq[Row] = panes.drop("pane").collect().sortBy(_.toString).toSeq

  test("only the columns that the windows read are parsed, and the answers are the same") {
    def panes = windowed(parsed().select("j.*"))
    assertEquals(pruned(panes), Some(Seq("ts", "k", "v")))
    val expected = answers(panes)
    spark.conf.set(SQLConf.JSON_EXPRESSION_OPTIMIZATION.key, false)
    try {
      assertEquals(pruned(panes), None)
      assertEquals(expected, answers(panes))
    } finally spark.conf.unset(SQLConf.JSON_EXPRESSION_OPTIMIZATION.key)
  }

  test("a query that reads all columns has the answers of Spark's from_json") {
    def panes = windowed(parsed().select("j.*"), F.max("note").as("note"), F.sum("price").as("price"))
    assertEquals(pruned(panes).map(_.length), Some(5))
    val expected = answers(panes)
    spark.conf.set(SQLConf.JSON_EXPRESSION_OPTIMIZATION.key, false)
    try assertEquals(expected, answers(panes))
    finally spark.conf.unset(SQLConf.JSON_EXPRESSION_OPTIMIZATION.key)
  }

  test("a filter, and a watermark, keep the columns that they read") {
    val rows = parsed().where("j.price > 1 or j.k = 'b'").select("j.*").withWatermark("ts", "1 second")
    val panes = windowed(rows)
    assertEquals(pruned(panes).map(_.contains("note")), Some(false))
    assertEquals(panes.count(), 2L)
  }

  test("all columns are parsed if others decide over a row, or if the query reads the struct") {
    val all = Seq(
      windowed(parsed(options = Map("mode" -> "FAILFAST")).select("j.*")),
      windowed(parsed(s"$columns, _corrupt_record string").select("j.*")),
      windowed(parsed(s"$columns, bad string", Map("columnNameOfCorruptRecord" -> "bad")).select("j.*")),
      windowed(parsed(options = Map("maxStringLen" -> "3")).select("j.*")),
      windowed(parsed().select("j.*", "j"), F.count("j").as("n"))
    )
    all.foreach(panes => assertEquals(pruned(panes), None))
    for (
      (key, value) <- Seq(
        SQLConf.JSON_ENABLE_PARTIAL_RESULTS.key -> "false",
        SQLConf.LEGACY_TIME_PARSER_POLICY.key -> "EXCEPTION"
      )
    ) {
      spark.conf.set(key, value)
      try assertEquals(pruned(windowed(parsed().select("j.*"))), None)
      finally spark.conf.unset(key)
    }
  }

  test("a query without windows is left to Spark") {
    assertEquals(pruned(parsed().select("j.ts", "j.k")), None)
  }
}
