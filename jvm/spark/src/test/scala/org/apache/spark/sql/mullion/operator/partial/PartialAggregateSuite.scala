package org.apache.spark.sql.mullion.operator.partial

import java.math.{BigDecimal => JavaDecimal, BigInteger}
import java.sql.{Date, Timestamp}

import scala.jdk.CollectionConverters._
import scala.util.{Random, Try}

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.WholeStageCodegenExec
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame, Row}

import dev.mullion.{TestSeed, _}

/** Compares Mullion's partial aggregate with Spark's, over random schemas, keys and aggregates. */
class PartialAggregateSuite extends SparkSuite {
  import PartialAggregateSuite._

  private val seed = TestSeed.value
  private val rounds = sys.env.get("MULLION_TEST_ROUNDS").fold(4)(_.toInt)

  override protected def settings: Seq[(String, String)] =
    Seq(
      "spark.sql.extensions" -> classOf[MullionExtensions].getName,
      "spark.sql.adaptive.enabled" -> "false",
      "spark.sql.codegen.fallback" -> "false"
    )

  test(s"its answers are Spark's to the bit, whatever the keys and aggregates are (seed $seed)") {
    for (round <- 0 until rounds) {
      val random = new Random(seed + round)
      val case_ = randomCase(random, onlyExact = false)
      val (asked, ofSpark) = (case_.run("mullion"), case_.run("spark"))
      assertSame(asked, ofSpark, s"round $round of seed $seed: $case_")
    }
  }

  test(s"its answers are Spark's where memory is short and groups are handed on, early and often (seed $seed)") {
    for (round <- 0 until rounds) {
      val random = new Random(seed - round)
      val case_ = randomCase(random, onlyExact = true)
      val limit = Seq("0", "8k", "80k", "100k", "150k", "250k")(random.nextInt(6))
      val (asked, ofSpark) = (case_.run("mullion", Some(limit)), case_.run("spark"))
      assertSame(asked, ofSpark, s"round $round of seed $seed, $limit: $case_")
    }
  }

  test(s"its answers are Spark's where columns are read from files, in batches of any size (seed $seed)") {
    for (round <- 0 until rounds) {
      val random = new Random(seed ^ (round + 1))
      val limit = Option.when(random.nextBoolean())(Seq("0", "80k", "150k")(random.nextInt(3)))
      val case_ = randomCase(random, onlyExact = limit.isDefined)
      val settings = Seq(
        "spark.sql.parquet.columnarReaderBatchSize" -> Seq(1, 7, 300, 4096)(random.nextInt(4)).toString,
        "spark.sql.columnVector.offheap.enabled" -> random.nextBoolean().toString,
        "spark.sql.parquet.outputTimestampType" -> Seq("INT96", "TIMESTAMP_MICROS")(random.nextInt(2))
      )
      settings.foreach { case (name, value) => spark.conf.set(name, value) }
      try
        TemporaryFolder.use { folder =>
          val path = folder.resolve("rows").toString
          val written = case_.rows.coalesce(1).write.option("parquet.enable.dictionary", random.nextBoolean())
          // A partition column of the folder is constant in a batch.
          (if (limit.isDefined) written.partitionBy("kbool") else written).parquet(path)
          val ofFile = case_.over(spark.read.schema(case_.rows.schema).parquet(path))
          val (asked, ofSpark) = (ofFile.run("mullion", limit, reads = true), ofFile.run("spark"))
          assertSame(asked, ofSpark, s"round $round of seed $seed, $limit, $settings: $case_")
        }
      finally settings.foreach { case (name, _) => spark.conf.unset(name) }
    }
  }

  test("a filter below reads columns where they are, for it may want few rows") {
    TemporaryFolder.use { folder =>
      val path = folder.resolve("rows").toString
      spark
        .range(100)
        .select(timestamp_seconds(lit(0)).as("ts"), (col("id") % 7).as("k"), col("id").as("v"))
        .write
        .parquet(path)
      val rows = spark.read.parquet(path)
      def panes(of: DataFrame) =
        of.windowed(Tumbling("10 seconds"), time = "ts", by = Seq(col("k"))).agg(sum("v").as("total"))
      def reads(of: DataFrame) = partial(of).get.exists(_.isInstanceOf[ReadColumnsExec])
      val (all, some) = (panes(rows), panes(rows.where("v < 50")))
      assert(reads(all) && !reads(some))
      assertEquals(all.agg(sum("total")).head().getLong(0), 4950L)
      assertEquals(some.agg(sum("total")).head().getLong(0), 1225L)
    }
  }

  test(
    "where all columns of a file are read several times Spark puts the rest into a method, and rows reach it"
  ) {
    TemporaryFolder.use { folder =>
      val path = folder.resolve("rows").toString
      spark.range(100).select(col("id").as("v")).write.parquet(path)
      val rows = spark.read.parquet(path).select(timestamp_seconds(col("v")).as("ts"), (col("v") * col("v")).as("w"))
      val panes = rows.windowed(Tumbling("10 seconds"), time = "ts").agg(count("*").as("n"), sum("w").as("total"))
      val results = panes.orderBy("window").select("n", "total").collect().map(row => row.getLong(0) -> row.getLong(1))
      assertEquals(
        results.toSeq,
        (0L until 100L).grouped(10).map(vs => vs.length.toLong -> vs.map(v => v * v).sum).toSeq
      )
    }
  }

  test("groups that are emitted early are counted, and memory stays within the acquired amount") {
    val rows = spark.range(20000).select(timestamp_seconds(lit(0)).as("ts"), col("id").as("k"), col("id").as("v"))
    val panes = set("mullion", Some("300k")) {
      val panes = rows.windowed(Tumbling("10 seconds"), time = "ts", by = Seq(col("k"))).agg(sum("v").as("total"))
      assertEquals(panes.collect().length, 20000)
      panes
    }
    val metrics = partial(panes).get.metrics
    assert(clue(metrics("handedOnEarly").value) > 10000 && metrics("handedOnEarly").value < 20000)
    assertEquals(metrics("numOutputRows").value, 20000L)
    assert(clue(metrics("peakMemory").value) > 0 && metrics("peakMemory").value <= 300 * 1024)
  }

  test("a row that is larger than all memory goes alone") {
    val rows = spark
      .range(300)
      .select(
        timestamp_seconds(lit(0)).as("ts"),
        when(col("id") % 3 === 0, repeat(lit("a"), 300000))
          .otherwise(
            (col("id") % 7).cast("string")
          )
          .as("k")
      )
    def panes = rows
      .windowed(Tumbling("10 seconds"), time = "ts", by = Seq(col("k")))
      .agg(count("*").as("n"))
      .select(length(col("k")), col("n"))
      .collect()
      .map(_.toString)
      .sorted
      .toSeq
    assertEquals(set("mullion", Some("200k"))(panes), set("spark", None)(panes))
  }

  test("a sum of decimals that is too large is null, and an error in ANSI mode; one of nulls is null") {
    val rows = spark
      .range(6)
      .select(
        timestamp_seconds(lit(0)).as("ts"),
        (col("id") % 3).as("k"),
        when(col("id") % 3 === 0, lit(new JavaDecimal("9" * 38)))
          .when(col("id") % 3 === 1, lit(new JavaDecimal("7")))
          .cast(DecimalType(38, 0))
          .as("v")
      )
      .coalesce(1)
    def panes(of: DataFrame) =
      of.windowed(Tumbling("10 seconds"), time = "ts", by = Seq(col("k"))).agg(sum("v").as("s"))
    for (ansi <- Seq(false, true)) {
      spark.conf.set("spark.sql.ansi.enabled", ansi)
      try {
        def sums(of: DataFrame) = panes(of).orderBy("k").select("s").collect().map(_.getDecimal(0)).toSeq
        assert(partial(panes(rows)).isDefined)
        assertEquals(sums(rows.where("k > 0")), Seq(JavaDecimal.valueOf(14), None.orNull))
        if (!ansi) assertEquals(sums(rows).head, None.orNull)
        else assert(clue(causes(intercept[Exception](sums(rows))).mkString).contains("ARITHMETIC_OVERFLOW"))
      } finally spark.conf.unset("spark.sql.ansi.enabled")
    }
  }

  test("many aggregates are added up by methods of their own") {
    val rows = spark
      .range(100)
      .select(timestamp_seconds(lit(0)).as("ts"), (col("id") % 7).as("k"), col("id").as("v"))
      .withColumn("d", when(col("v") % 5 > 0, col("v").cast(DecimalType(12, 2))))
    val many = Seq(sum("d").as("s"), avg("d").as("m"), max(col("d").cast(DecimalType(20, 2))).as("x")) ++
      (1 to 150).map(i => (if (i % 2 == 0) stddev(col("v") * i) else sum(col("v") + i)).as(s"a$i"))
    def panes = rows.windowed(Tumbling("10 seconds"), time = "ts", by = Seq(col("k"))).agg(many.head, many.tail: _*)
    spark.conf.set("spark.sql.codegen.maxFields", 1000)
    try assertEquals(set("mullion", None)(bytes(panes)), set("spark", None)(bytes(panes)))
    finally spark.conf.unset("spark.sql.codegen.maxFields")
  }

  for (
    (what, aggregate, why) <- Seq(
      ("intervals", first(expr("make_interval(0, 0, 0, 0, 0, 0, 1)")).as("of"), "first holds INTERVAL"),
      ("a list of keys", expr("count(*)").as("of"), "the key keys is ARRAY")
    )
  )
    test(s"the plan shows that Spark aggregates before the shuffle, and the reason: $what") {
      val rows = spark.sql("SELECT timestamp_seconds(1) AS ts, 1 AS k, 2L AS v, 'a' AS text")
      val panes = rows
        .withColumn("keys", array("k"))
        .windowed(Tumbling("10 seconds"), time = "ts", by = Seq(col(if (why.contains("keys")) "keys" else "k")))
        .agg(aggregate)
      val plan = panes.queryExecution.executedPlan.toString
      assert(clue(plan).contains(s"partial aggregate by Spark: $why"))
      assertEquals(partial(panes), None)
      assertEquals(panes.count(), 1L)
    }

  test("the plan names the path of each aggregate, and an aggregate with objects leaves the others in place") {
    val rows = spark.sql("SELECT timestamp_seconds(1) AS ts, 1 AS k, 2L AS v, 'a' AS text")
    val panes = rows
      .windowed(Tumbling("10 seconds"), time = "ts", by = Seq(col("k")))
      .agg(
        sum("v").as("s"),
        approx_count_distinct("v").as("d"),
        max("text").as("m"),
        collect_list("v").as("l")
      )
    val plan = panes.queryExecution.executedPlan.toString.linesIterator.find(_.contains("PartialAggregate(")).get
    val (inPlace, objects) = plan.splitAt(plan.indexOf("as objects=["))
    assert(clue(inPlace).contains("in place=[partial_sum("))
    for (of <- Seq("approx_count_distinct", "max", "collect_list")) assert(clue(objects).contains(s"partial_$of("))
    val row = panes.select("s", "d", "m", "l").head()
    assertEquals((row.getLong(0), row.getLong(1), row.getString(2), row.getSeq[Long](3)), (2L, 1L, "a", Seq(2L)))
  }

  test("objects are counted as memory: lists that outgrow it are emitted early, and nothing is lost") {
    val rows = spark
      .range(0, 60000, 1, 1)
      .select(timestamp_seconds(lit(0)).as("ts"), (col("id") % 3).as("k"), col("id").as("v"))
    val panes = set("mullion", Some("300k")) {
      val panes = rows
        .windowed(Tumbling("10 seconds"), time = "ts", by = Seq(col("k")))
        .agg(collect_list("v").as("all"), max(repeat(col("v").cast("string"), 100)).as("text"))
      val all = panes.collect().map(row => row.getAs[Long]("k") -> row.getAs[collection.Seq[Long]]("all"))
      assertEquals(all.map(_._1).sorted.toSeq, Seq(0L, 1L, 2L))
      all.foreach { case (k, of) => assertEquals(of.sorted.toSeq, (0L until 20000L).map(_ * 3 + k).toSeq) }
      panes
    }
    val metrics = partial(panes).get.metrics
    assert(clue(metrics("handedOnEarly").value) > 0)
    assert(clue(metrics("peakMemory").value) <= 300 * 1024)
  }

  test("code that is not generated is Spark's, and gives the same") {
    val rows = spark.range(1000).select(timestamp_seconds(col("id")).as("ts"), (col("id") % 7).as("k"))
    def panes = rows.windowed(Tumbling("10 seconds"), time = "ts", by = Seq(col("k"))).agg(count("*").as("n"))
    val generated = bytes(panes)
    spark.conf.set("spark.sql.codegen.wholeStage", false)
    try {
      assert(panes.queryExecution.executedPlan.toString.contains("spark.sql.codegen.wholeStage is false"))
      assertEquals(bytes(panes), generated)
    } finally spark.conf.unset("spark.sql.codegen.wholeStage")
    // Spark generates no code for plans that are too wide, and they do not show it before.
    spark.conf.set("spark.sql.codegen.maxFields", 1)
    try {
      assert(panes.queryExecution.executedPlan.exists(_.isInstanceOf[PartialAggregateExec]))
      assertEquals(partial(panes), None)
      assertEquals(bytes(panes), generated)
    } finally spark.conf.unset("spark.sql.codegen.maxFields")
  }

  test("a setting that names no partial aggregate is rejected") {
    val rows = spark.sql("SELECT timestamp_seconds(1) AS ts, 1 AS k")
    def panes = rows.windowed(Tumbling("10 seconds"), time = "ts", by = Seq(col("k"))).agg(count("*").as("n")).collect()
    val name = set("flink", None)(intercept[MullionException](panes))
    assert(clue(name.getMessage).contains("write 'mullion'"))
    val size = set("mullion", Some("much"))(intercept[MullionException](panes))
    assert(clue(size.getMessage).contains("such as '64m'"))
  }

  /** Prints the differences, limited in number. */
  private def assertSame(asked: Result, ofSpark: Result, of: String): Unit = (asked, ofSpark) match {
    case (Right(rows), Right(theirs)) => assertEquals(rows.diff(theirs).take(2), theirs.diff(rows).take(2), of)
    case _                            => assertEquals(asked.map(_.length), ofSpark.map(_.length), of)
  }

  private def set[A](who: String, limit: Option[String])(body: => A): A = {
    spark.conf.set(PartialAggregates.Setting, who)
    limit.foreach(spark.conf.set(PartialAggregates.LimitSetting, _))
    try body
    finally {
      spark.conf.unset(PartialAggregates.Setting)
      spark.conf.unset(PartialAggregates.LimitSetting)
    }
  }

  private def partial(panes: DataFrame): Option[PartialAggregateExec] =
    panes.asInstanceOf[Dataset[_]].queryExecution.executedPlan.collectFirst {
      case stage: WholeStageCodegenExec if stage.exists(_.isInstanceOf[PartialAggregateExec]) =>
        stage.collectFirst { case found: PartialAggregateExec => found }.get
    }

  private def causes(error: Throwable): Seq[Throwable] =
    Iterator.iterate(error)(_.getCause).takeWhile(_ ne null).toSeq.reverse

  /** The rows of a result in Spark's internal form, sorted. */
  private def bytes(panes: DataFrame): Seq[String] = panes
    .asInstanceOf[Dataset[_]]
    .queryExecution
    .toRdd
    .map(row => row.asInstanceOf[UnsafeRow].getBytes.map("%02x".format(_)).mkString)
    .collect()
    .sorted
    .toSeq

  private final class Case(val rows: DataFrame, ansi: Boolean, window: Window, keys: Seq[Column], of: Seq[Column]) {
    def over(others: DataFrame): Case = new Case(others, ansi, window, keys, of)

    private def panes = rows.windowed(window, time = "ts", by = keys).agg(of.head, of.tail: _*)

    /** The output, or the condition of Spark's error. */
    def run(who: String, limit: Option[String] = None, reads: Boolean = false): Result = {
      spark.conf.set("spark.sql.ansi.enabled", ansi)
      try
        set(who, limit) {
          val result = panes
          assertEquals(partial(result).isDefined, who == "mullion", clue(this.toString))
          assertEquals(partial(result).exists(_.exists(_.isInstanceOf[ReadColumnsExec])), reads, clue(this.toString))
          Try(bytes(result)).toEither.left.map { error =>
            val conditions = causes(error).collect { case e: SparkThrowable => e.getCondition }.filter(_ ne null)
            // The order of two failing groups is undefined.
            conditions.headOption.map(c => if (tooLarge(c)) "overflow" else c).getOrElse(error.toString)
          }
        }
      finally spark.conf.unset("spark.sql.ansi.enabled")
    }

    override def toString: String = s"$window by $keys of $of, ANSI $ansi"
  }

  /** @param onlyExact
    *   whether sums are the same in any order
    */
  private def randomCase(random: Random, onlyExact: Boolean): Case = {
    def some[A](of: Seq[A], most: Int): Seq[A] = random.shuffle(of).take(1 + random.nextInt(most))
    val window =
      Seq(Tumbling("10 seconds"), Sliding("20 seconds", "5 seconds"), Session("3 seconds"))(random.nextInt(3))
    val keys = some(keyColumns, 4)
    // Slices, sessions and keys that are equal with different bits are merged after the shuffle, in any order.
    val isExact = onlyExact || window != Tumbling("10 seconds") || keys.exists(floating.contains)
    val ansi = random.nextBoolean()
    val size = random.nextInt(3000)
    val ofKey = 1 + random.nextInt(if (random.nextBoolean()) 4 else 1000)
    val rows = Seq.fill(size)(randomRow(random, ofKey, isExact, overflows = random.nextInt(2000) == 0))
    val aggregates = some(if (isExact) exact else exact ++ inexact, 9).zipWithIndex.map { case (text, i) =>
      val filter = if (random.nextInt(3) > 0) "" else some(filters, 1).mkString(" FILTER (WHERE ", "", ")")
      expr(text + filter).as(s"a$i")
    }
    new Case(spark.createDataFrame(rows.asJava, schema), ansi, window, keys.map(col), aggregates)
  }
}

private object PartialAggregateSuite {
  private type Result = Either[String, Seq[String]]

  private val keyColumns =
    Seq("kl", "ki", "ks", "kbin", "kbool", "kbyte", "kshort", "kd", "kf", "kdec", "kdate", "kts")

  private val tooLarge = Set("ARITHMETIC_OVERFLOW") ++
    Seq("WITH_SUGGESTION", "WITHOUT_SUGGESTION").map("NUMERIC_VALUE_OUT_OF_RANGE." + _)

  private val floating = Set("kd", "kf")

  private val schema = StructType(
    Seq("ts" -> TimestampType) ++
      keyColumns.zip(
        Seq(LongType, IntegerType, StringType, BinaryType, BooleanType, ByteType, ShortType, DoubleType, FloatType) ++
          Seq(DecimalType(12, 3), DateType, TimestampType)
      ) ++
      Seq(
        "vl" -> LongType,
        "vi" -> IntegerType,
        "vd" -> DoubleType,
        "vdec" -> DecimalType(8, 2),
        "vmoney" -> DecimalType(10, 2),
        "vlong" -> DecimalType(18, 3),
        "vwide" -> DecimalType(28, 2),
        "vhuge" -> DecimalType(38, 1),
        "vb" -> BooleanType
      ) ++
      Seq("vf" -> FloatType, "vs" -> ShortType) map { case (name, kind) => StructField(name, kind) }
  )

  private val filters = Seq("vb", "vi > 0", "vd IS NOT NULL", "kl % 2 = 0 AND NOT vb", "false")

  private val exact = Seq("count(*)", "count(vl)", "count(vd, vb)", "sum(vl)", "sum(vi)", "sum(vd)", "sum(vdec)") ++
    Seq("avg(vi)", "avg(vd)", "min(vl)", "max(vl)", "min(vd)", "max(vd)", "min(vf)", "max(kdate)", "min(kts)") ++
    Seq("max(vdec)", "bool_and(vb)", "bool_or(vb)", "count_if(vb)", "bit_xor(vl)", "bit_and(vi)", "max(vs)") ++
    Seq("sum(vmoney)", "avg(vmoney)", "sum(vlong)", "avg(vlong)", "sum(vwide)", "avg(vwide)", "sum(vhuge)") ++
    Seq("avg(vhuge)", "max(vwide)", "min(vhuge)", "sum(vmoney * vi)", "sum(CASE WHEN vb THEN vmoney ELSE 0 END)") ++
    Seq("avg(vlong / nullif(vi, 0))", "sum(vwide + vmoney)", "try_sum(vhuge)", "try_avg(vmoney)", "sum(vi * 1.5BD)") ++
    Seq("sum(vi + 1)", "sum(vi * 2L)", "max(vi * 2L)", "max(kbyte)", "try_sum(vl)", "try_avg(vi)") ++
    Seq("max(ks)", "min(ks)", "max(kbin)", "min(upper(ks))", "max(struct(ks, vi))", "min(array(ks, kbin))") ++
    Seq(
      "max(map_keys(map(ks, vi)))",
      "approx_count_distinct(vl)",
      "approx_count_distinct(ks, 0.1)",
      "percentile(vi, 0.5)"
    ) ++
    Seq("bitmap_construct_agg(bitmap_bit_position(vi))", "count_min_sketch(vi, 0.5d, 0.5d, 1)")

  private val inexact = Seq("stddev(vd)", "var_pop(vi)", "corr(vd, vi)", "covar_samp(vd, vi)", "skewness(vd)") ++
    Seq(
      "kurtosis(vi)",
      "sum(vd * 0.1D)",
      "avg(vf)",
      "first(vi)",
      "last(vi, true)",
      "first(vd, true)",
      "any_value(vl)",
      "first(vwide)",
      "last(vhuge, true)",
      "max_by(vwide, vi)"
    ) ++
    Seq("max_by(vi, vl)", "min_by(vd, vi)", "regr_slope(vd, vi)", "sum(vf)", "stddev_pop(vi + vd)") ++
    Seq(
      "first(ks)",
      "last(kbin, true)",
      "max_by(ks, vl)",
      "min_by(struct(vi, ks), vd)",
      "max(ks COLLATE UTF8_LCASE)"
    ) ++
    Seq("collect_list(vi)", "collect_set(ks)", "collect_set(struct(vd, kf))", "approx_percentile(vd, 0.5)") ++
    Seq("collect_list(struct(ks, array(vi)))", "hll_sketch_agg(ks)", "histogram_numeric(vd, 5)", "first(array(vd))")

  private val edges =
    Seq(0.0, -0.0, Double.NaN, Double.PositiveInfinity, Double.NegativeInfinity, Double.MinPositiveValue)

  private def randomRow(random: Random, of: Int, isExact: Boolean, overflows: Boolean): Row = {
    def orNull(value: Any): Any = if (random.nextInt(15) == 0) None.orNull else value
    def key: Int = random.nextInt(of)
    val time = if (random.nextInt(200) == 0) None.orNull else new Timestamp(random.nextInt(60000).toLong)
    val text = key match {
      case 0 => ""
      case n => (if (n % 3 == 0) "ключ" else "k") * (n % 11) + n
    }
    val float = if (random.nextInt(4) == 0) edges(random.nextInt(edges.length)) else key.toDouble / 4
    val oddNaN = java.lang.Double.longBitsToDouble(0x7ff8000000000123L)
    val number = random.nextInt(2000) - 1000
    val double: Double =
      if (isExact) number.toDouble
      else if (random.nextInt(300) == 0) edges(random.nextInt(edges.length))
      else random.nextGaussian() * 1e6
    // An overflow is independent of the order if no summand is negative.
    def digits(most: Int): BigInteger = {
      val limit = BigInteger.TEN.pow(most)
      val digits =
        if (random.nextInt(300) == 0) limit.subtract(BigInteger.valueOf(1L + random.nextInt(3)))
        else new BigInteger(1 + random.nextInt(100), random.self).mod(limit.shiftRight(13))
      if (!isExact && random.nextBoolean()) digits.negate else digits
    }
    Row.fromSeq(
      time +: Seq[Any](
        key.toLong << 33,
        key - of / 2,
        text,
        text.getBytes("UTF-8").reverse,
        key % 2 == 0,
        key.toByte,
        key.toShort,
        if (random.nextInt(50) == 0) oddNaN else float,
        float.toFloat,
        JavaDecimal.valueOf(key.toLong, 3),
        new Date(key * 86400000L),
        new Timestamp(key.toLong),
        if (overflows) Long.MaxValue - random.nextInt(3) else number.toLong,
        number,
        double,
        JavaDecimal.valueOf(number.toLong, 2),
        JavaDecimal.valueOf(number * 9999999L, 2),
        new JavaDecimal(digits(18), 3),
        new JavaDecimal(digits(28), 2),
        new JavaDecimal(digits(38), 1),
        random.nextBoolean(),
        number.toFloat,
        number.toShort
      ).map(orNull)
    )
  }
}
