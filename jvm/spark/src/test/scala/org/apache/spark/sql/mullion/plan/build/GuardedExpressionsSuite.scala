package org.apache.spark.sql.mullion.plan.build

import java.nio.file.Path

import scala.util.control.NonFatal
import scala.util.{Random, Try}

import org.apache.spark.sql.mullion.operator.partial.PartialAggregates
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.{functions => F, DataFrame, Row}

import dev.mullion.{Asked, MullionExtensions, TestSeed}

/** Random aggregates whose inputs fail for some rows, behind conditions that guard them: whatever Spark's own window
  * returns, windows return too.
  */
class GuardedExpressionsSuite extends SparkSuite {
  import GuardedExpressionsSuite._

  private val seed = TestSeed.value
  private val rounds = sys.env.get("MULLION_TEST_ROUNDS").fold(40)(_.toInt)

  override protected def settings: Seq[(String, String)] =
    Seq("spark.sql.extensions" -> classOf[MullionExtensions].getName, "spark.sql.shuffle.partitions" -> "1")

  private def write(folder: Path, random: Random): Unit = spark
    .range(0, 60)
    .selectExpr(
      "timestamp_seconds(id) AS ts",
      "id % 3 AS k",
      s"element_at(array(0, 1, 2, 5, null, -3), CAST(pmod(xxhash64(id, ${random.nextInt()}), 6) AS INT) + 1) AS v",
      "element_at(array(0, 4, 7, 2000000000), CAST(id * 7 % 4 AS INT) + 1) AS w",
      "IF(id % 4 = 1, 'none', CAST(id AS STRING)) AS s"
    )
    .coalesce(1)
    .write
    .parquet(folder.toString)

  private def columns(aggregates: Seq[String]) = aggregates.zipWithIndex.map { case (text, i) =>
    F.expr(text).as(s"a$i")
  }

  private def sparks(rows: DataFrame, query: Query): Seq[Row] = {
    val keys = F.window(query.column, query.size, query.slide).as("window") +: query.keys
    val aggregates = columns(query.aggregates)
    rows.groupBy(keys: _*).agg(aggregates.head, aggregates.tail: _*).collect().toSeq
  }

  private def panes(rows: DataFrame, query: Query): DataFrame = {
    val options = Asked.options.withTime(query.column)
    Asked.windowed(
      rows,
      Asked.sliding(query.micros(query.size), query.micros(query.slide), 0),
      query.keys.toArray,
      if (rows.isStreaming) options.withCloseAtEnd else options,
      columns(query.aggregates).toArray
    )
  }

  private def streamed(panes: DataFrame): Seq[Row] = TemporaryFolder.use { folder =>
    val rows = Seq.newBuilder[Row]
    val add: (DataFrame, Long) => Unit = (batch, _) => rows.synchronized { rows ++= batch.collect(); () }
    panes.writeStream
      .foreachBatch(add)
      .option("checkpointLocation", folder.resolve("checkpoint").toString)
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()
    rows.result()
  }

  /** The rows as text: window, keys and aggregates. */
  private def shown(rows: Seq[Row], query: Query): Seq[String] = rows.map { row =>
    val named = Seq("window") ++ query.keys.indices.map(i => s"k$i") ++ query.aggregates.indices.map(i => s"a$i")
    named.map(name => row.getAs[Any](name)).mkString(" | ")
  }.sorted

  /** Compares windows with Spark's own; returns false if Spark itself fails. */
  private def check(query: Query, folder: Path, ansi: Boolean, aggregate: String): Boolean = {
    spark.conf.set("spark.sql.ansi.enabled", ansi.toString)
    spark.conf.set(PartialAggregates.Setting, aggregate)
    val rows = spark.read.parquet(folder.toString)
    Try(sparks(rows, query)).toOption.exists { theirs =>
      def same(how: String)(ours: => Seq[Row]): Unit = {
        val clue = s"$how, seed $seed, ansi $ansi, aggregated by $aggregate: $query"
        val results =
          try shown(ours, query)
          catch { case NonFatal(e) => fail(s"$clue: ${e.getMessage.linesIterator.next()}", e) }
        assertEquals(results, shown(theirs, query), clue)
      }
      same("batch")(panes(rows, query).collect().toSeq)
      if (query.isStreamed) {
        val stream = spark.readStream.schema(rows.schema).parquet(folder.toString).withWatermark("ts", "1 hour")
        same("stream")(streamed(panes(stream, query)))
      }
      true
    }
  }

  test(s"guarded expressions give what Spark's own window gives (seed $seed)") {
    TemporaryFolder.use { folder =>
      val random = new Random(seed)
      write(folder.resolve("rows"), random)
      val answered = (1 to rounds).map { i =>
        val query = new Queries(random).one(isStreamed = i % 10 == 0)
        check(query, folder.resolve("rows"), ansi = i % 4 > 0, if (i % 3 == 0) "spark" else "mullion")
      }
      assert(clue(answered.count(identity)) > rounds / 3)
    }
  }

  for {
    (what, aggregates) <- Seq(
      "a condition that is counted and tested" ->
        Seq("count_if(v <> 0 AND 10 / v > 3)", "bool_or(v <> 0 AND 10 / v > 3)"),
      "a condition with OR" -> Seq("count_if(v = 0 OR 10 / v > 3)", "bool_and(v = 0 OR 10 / v > 3)"),
      "a condition that is counted alone" -> Seq("count_if(v <> 0 AND 10 / v > 3)"),
      "nullif over a condition" -> Seq("max(nullif(v <> 0 AND 10 / v > 3, false))", "min(v <> 0 AND 10 / v > 3)"),
      "a range behind a FILTER" -> Seq("max((v + 1) BETWEEN 10 / v AND 50) FILTER (WHERE v <> 0)"),
      "a condition over results" -> Seq(
        "nullif(sum(v) <> 0 AND 10 / sum(v) > 3, false)",
        "count_if(v > 100)",
        "nullif(count_if(v > 100) <> 0 AND 10 / count_if(v > 100) > 3, false)"
      )
    )
    aggregate <- Seq("mullion", "spark")
  } test(s"$what gives what Spark's own window gives, aggregated by $aggregate") {
    TemporaryFolder.use { folder =>
      write(folder.resolve("rows"), new Random(seed))
      val query = Query("ts", "10 seconds", "10 seconds", Seq("k"), aggregates, isStreamed = true)
      assert(check(query, folder.resolve("rows"), ansi = true, aggregate), "Spark itself fails")
    }
  }

  test("a value guarded by a FILTER is not computed before it, even if several aggregates share it") {
    TemporaryFolder.use { folder =>
      write(folder.resolve("rows"), new Random(seed))
      spark.conf.set("spark.sql.ansi.enabled", "true")
      spark.conf.set(PartialAggregates.Setting, "mullion")
      val shared = Seq("sum(10 div v) FILTER (WHERE v <> 0)", "max(10 div v) FILTER (WHERE v <> 0)")
      val query = Query("ts", "60 seconds", "60 seconds", Nil, shared, isStreamed = false)
      val rows = spark.read.parquet(folder.resolve("rows").toString)
      val guarded = query.copy(aggregates = Seq("sum(if(v <> 0, 10 div v, null))", "max(if(v <> 0, 10 div v, null))"))
      assertEquals(
        shown(panes(rows, query).collect().toSeq, query),
        shown(sparks(rows, guarded), guarded)
      )
    }
  }
}

private object GuardedExpressionsSuite {

  final case class Query(
      time: String,
      size: String,
      slide: String,
      by: Seq[String],
      aggregates: Seq[String],
      isStreamed: Boolean
  ) {
    def column = F.expr(time)
    def keys = by.zipWithIndex.map { case (text, i) => F.expr(text).as(s"k$i") }
    def micros(of: String): Long = of.takeWhile(_.isDigit).toLong * 1000000L
  }

  final class Queries(random: Random) {
    private def one[T](of: (() => T)*): T = of(random.nextInt(of.length))()
    private def n = random.nextInt(6)

    def one(isStreamed: Boolean): Query = {
      val by = Seq.fill(random.nextInt(3))(one(() => "k", () => truth(1), () => s"coalesce(${truth(0)}, false)"))
      val time = one(() => "ts", () => "ts", () => "if(v <> 0, ts + make_dt_interval(0, 0, 0, 10 div v), ts)")
      val (size, slide) = one(() => ("10 seconds", "10 seconds"), () => ("20 seconds", "10 seconds"))
      Query(
        if (isStreamed) "ts" else time,
        size,
        slide,
        by.distinct,
        Seq.fill(1 + random.nextInt(3))(aggregate),
        isStreamed
      )
    }

    private def aggregate: String = {
      val plain = one(
        () => s"count_if(${truth(1)})",
        () => s"bool_or(${truth(1)})",
        () => s"bool_and(${truth(1)})",
        () => s"max(${truth(1)})",
        () => s"min(nullif(${truth(1)}, ${truth(0)}))",
        () => s"sum(if(${truth(1)}, k, 0))",
        () => s"sum(CASE WHEN v <> 0 THEN 10 div v WHEN ${truth(0)} THEN 1 END)",
        () => s"avg(CAST(${truth(1)} AS INT))",
        () => s"sum(${number(1)})",
        () => s"max(${number(1)})"
      )
      val filtered = one(
        () => plain,
        () => plain,
        () => s"$plain FILTER (WHERE ${truth(1)})",
        () => "sum(10 div v) FILTER (WHERE v <> 0)",
        () => s"count(10 % v) FILTER (WHERE v <> 0 AND ${truth(0)})"
      )
      one(
        () => filtered,
        () => filtered,
        () => s"if($filtered > $plain, 1, 0)",
        () => s"coalesce($filtered, $plain)",
        () => s"if(sum(v) <> 0, 10 / sum(v) > $n, false)",
        () => s"nullif(sum(v) <> 0 AND 10 / sum(v) > $n, false)"
      )
    }

    private def number(depth: Int): String = one(
      () => "coalesce(10 div nullif(v, 0), k)",
      () => s"if(${truth(depth - 1)}, 10 div nullif(v, 0), k)",
      () => "try_divide(10, v)",
      () => "try_add(w, w)",
      () => "CASE WHEN v = 0 THEN 0 ELSE 10 % v END",
      () => "if(s RLIKE '^[0-9]+$', CAST(s AS INT), -1)",
      () => "nvl2(nullif(v, 0), 10 div v, 0)"
    )

    private def truth(depth: Int): String =
      if (depth <= 0 || random.nextInt(3) > 0)
        one(
          () => s"v <> 0 AND 10 / v > $n",
          () => s"v = 0 OR 10 / v > $n",
          () => s"s RLIKE '^[0-9]+$$' AND CAST(s AS INT) > $n",
          () => s"CASE WHEN v <> 0 THEN 10 / v > $n ELSE k = 1 END",
          () => s"if(v = 0, false, 10 div v BETWEEN 1 AND $n)",
          () => s"coalesce(nullif(v = 0, false), 10 / v > $n)",
          () => s"10 / nullif(v, 0) > $n",
          () => s"w < 1000000000 AND w + w > $n",
          () => s"${number(0)} BETWEEN 1 AND $n"
        )
      else
        one(
          () => s"NOT (${truth(depth - 1)})",
          () => s"(${truth(depth - 1)}) AND (${truth(depth - 1)})",
          () => s"(${truth(depth - 1)}) OR (${truth(depth - 1)})",
          () => s"coalesce(${truth(depth - 1)}, ${truth(depth - 1)})"
        )
  }
}
