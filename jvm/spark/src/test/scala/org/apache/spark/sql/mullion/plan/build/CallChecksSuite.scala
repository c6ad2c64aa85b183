package org.apache.spark.sql.mullion.plan.build

import org.apache.spark.sql.Column
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.SparkSuite
import org.apache.spark.sql.mullion.plan.Shown
import org.apache.spark.sql.mullion.plan.options.WindowOptions

import dev.mullion.{Asked, MullionException, MullionExtensions}

class CallChecksSuite extends SparkSuite {

  override protected def settings: Seq[(String, String)] =
    Seq("spark.sql.extensions" -> classOf[MullionExtensions].getName)

  private lazy val rows: DataFrame = spark
    .sql("SELECT timestamp'2013-01-01' AS ts, 'a' AS k, 1.5D AS v, map(1, 2) AS m, 'b' COLLATE UTF8_LCASE AS collated")
    .asInstanceOf[DataFrame]

  private def call(by: Seq[Column], options: WindowOptions, aggregates: Column*): DataFrame =
    WindowedBuilder(rows, Asked.tumbling(1000000L, 0), by, options.withTime(col("ts")), aggregates)

  private def refusal(by: Seq[Column], aggregates: Column*): String =
    intercept[MullionException](call(by, Asked.options, aggregates: _*)).getMessage

  test("a call becomes a node with normalised keys, and its output") {
    val panes = call(Seq(col("k"), col("v").as("price"), col("m")), Asked.options, sum("v").as("total"))
    assertEquals(panes.columns.toSeq, Seq("k", "price", "m", "window", "pane", "total"))
    panes.queryExecution.analyzed match {
      case Shown(shown) => assertEquals(shown.node.keys.map(_.name), Seq("k", "price", "m"))
      case other        => fail(s"$other")
    }
  }

  test("aggregates that need all rows or several passes are rejected with the workaround") {
    rows.createOrReplaceTempView("rows")
    assert(clue(refusal(Seq(col("k")), expr("max(v) + (SELECT max(v) FROM rows)").as("n"))).contains("is a subquery"))
    assert(clue(refusal(Seq(col("k")))).contains("agg(count(\"*\").as(\"n\"))"))
  }

  test("DISTINCT is rejected for values that their bytes do not identify") {
    val ofTexts = expr("count(DISTINCT v, collated)").as("n")
    assert(
      clue(refusal(Seq(col("k")), ofTexts))
        .startsWith("count(DISTINCT v, collated) compares collated, which has a collation")
    )
    val ofVariants = expr("count(DISTINCT parse_json(k))").as("n")
    assert(clue(refusal(Seq(col("k")), ofVariants)).contains("whose values Spark cannot compare"))
  }

  test("aggregates over distinct values are those of Spark, for values of any type") {
    val values = Seq("v", "struct(v, k)", "array(v, -0.0D, 0.0D)", "k, v", "1", "v, 1", "make_interval(1, 2)")
    val functions = values.map(of => s"count(DISTINCT $of)") ++
      Seq("sum(DISTINCT v)", "avg(DISTINCT v + 1)", "collect_list(DISTINCT k)", "stddev(DISTINCT v)")
    val aggregates = functions.zipWithIndex.map { case (of, i) => expr(of).as(s"c$i") }
    // Spark itself cannot compare maps, nor order texts if there are several aggregates over distinct values.
    val more = Seq("count(DISTINCT m)", "listagg(DISTINCT k, '-') WITHIN GROUP (ORDER BY k)").map(expr(_))
    val ours = call(Seq(col("k")), Asked.options, aggregates ++ more: _*).drop("k", "window", "pane").collect().toSeq
    val ofSpark = rows.groupBy("k").agg(aggregates.head, aggregates.tail: _*).drop("k").collect().toSeq
    assertEquals(ours.map(_.toSeq.dropRight(2)), ofSpark.map(_.toSeq))
    assertEquals(
      ours.map(row => (row.getLong(aggregates.length), row.getString(aggregates.length + 1))),
      Seq(1L -> "a")
    )
  }

  test("DISTINCT is accepted where it makes no difference, as in Spark's own aggregations") {
    val panes =
      call(Seq(col("k")), Asked.options, expr("max(DISTINCT v)").as("most"), expr("min(DISTINCT v)").as("least"))
    assertEquals(panes.select("most", "least").collect().toSeq.map(_.toString), Seq("[1.5,1.5]"))
  }

  test("a key that cannot identify panes is rejected with one that can") {
    assert(
      clue(refusal(Seq(col("collated")), count("*").as("n")))
        .contains("expr(\"lower(CAST(collated AS STRING))\").as(\"collated\")")
    )
    val session = session_window(col("ts"), "1 second").as("s")
    assert(clue(refusal(Seq(session), count("*").as("n"))).contains("Use Session(gap) as the window"))
  }

  test("a duplicate name in the result is rejected at its place") {
    assert(
      clue(refusal(Seq(col("k").as("Pane")), count("*").as("n"))).startsWith("by = Seq(col(\"Pane\")) is also the name")
    )
    assert(clue(refusal(Seq(col("k")), count("*").as("window"))).startsWith("A column is named 'window'"))
    assert(clue(refusal(Seq(col("k")), count("*").as("k"))).contains("2 columns named 'k'"))
    val late = intercept[MullionException](call(Nil, Asked.options.withLate("emit"), count("*").as("late_row")))
    assert(clue(late.getMessage).contains("'late_row'"))
    assert(call(Nil, Asked.options, count("*").as("late_row")).columns.contains("late_row"))
  }

  test("errors that do not depend on aggregates are found before them") {
    def refused(window: dev.mullion.windows.spec.WindowSpec, by: Seq[Column], options: WindowOptions): String =
      intercept[MullionException](WindowedBuilder.check(rows, window, by, options)).getMessage
    val tumbling = Asked.tumbling(1000000L, 0)
    val timed = Asked.options.withTime(col("ts"))
    assert(clue(refused(tumbling, Nil, Asked.options.withTime(col("k")))).contains("to_timestamp(col(\"k\"))"))
    assert(clue(refused(tumbling, Seq(col("k"), upper(col("k")).as("k")), timed)).contains("2 columns named 'k'"))
    assert(
      clue(refused(Asked.session(None, None, endsWithRow = false), Nil, timed.withGap(col("v"))))
        .contains("make_dt_interval(0, 0, 0, v)")
    )
    assert(
      clue(refused(Asked.custom(), Nil, timed.withRanges(col("k"))))
        .startsWith("The column of ranges, k, is of type string")
    )
    WindowedBuilder.check(rows, tumbling, Seq(col("k")), timed)
  }
}
