package dev.mullion

import java.nio.file.Files
import java.time.{Duration => JavaDuration}

import scala.concurrent.duration.DurationInt

import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.Trigger

import dev.mullion.windows.rules.{AsOfDirection, JoinKind}

/** Windows in the Scala API. The page docs/reference/scala.md shows the code between the marks. */
class ScalaApiSuite extends SparkSuite {
  import ScalaApiSuite._

  override protected def cores: Int = 2

  test("a batch has the panes that its rows are in") {
    // docs: batch
    import org.apache.spark.sql.functions._

    import dev.mullion._

    val clicks = spark.sql(
      "SELECT timestamp(at) AS at, user FROM VALUES ('2024-01-01 10:05:00', 'ann'), ('2024-01-01 10:40:00', 'ann'), " +
        "('2024-01-01 11:10:00', 'bob') AS t(at, user)"
    )
    val panes = clicks
      .windowed(Tumbling("1 hour"), time = "at", by = Seq("user"))
      .agg(count("*").as("n"))
    panes.select(col("user"), col("window.start"), col("n")).orderBy("start").show()
    // end
    assertEquals(
      shown(panes, "user", "window.start", "n"),
      Set("ann 2024-01-01 10:00:00.0 2", "bob 2024-01-01 11:00:00.0 1")
    )
  }

  test("keys are columns or names, and the rows may be a Dataset") {
    def counts(by: Columns): Set[String] = {
      val panes = spark.range(4).windowed(Tumbling("2 seconds"), time = timestamp_seconds(col("id")), by = by)
      shown(panes.agg(count("*").as("n"), max("id").as("last")), "last", "n")
    }
    val eachRow = Set("0 1", "1 1", "2 1", "3 1")
    assertEquals(counts(Seq("id")), eachRow)
    assertEquals(counts(Seq(col("id").cast("string").as("id"))), eachRow)
    assertEquals(counts(Nil), Set("1 2", "3 2"))
  }

  test("a misspelt column is reported with its place and the columns of the input") {
    val rows = spark.range(4).withColumn("at", timestamp_seconds(col("id")))
    def message(panes: => DataFrame): String = intercept[MullionException](panes).getMessage
    val names = "It has 'id', 'at'."
    assertEquals(
      message(rows.windowed(Tumbling("1 hour"), time = "at", by = Seq("idd")).agg(count("*"))),
      s"""by = "idd": the input has no column 'idd'. Did you mean 'id'? $names"""
    )
    assertEquals(
      message(rows.windowed(Tumbling("1 hour"), time = "att").agg(count("*"))),
      s"""time = "att": the input has no column 'att'. Did you mean 'at'? $names"""
    )
    assertEquals(
      message(rows.windowed(Tumbling("1 hour"), time = "at", dedupeBy = Seq(upper(col("ids")))).agg(count("*"))),
      s"""dedupeBy = "upper(ids)": the input has no column 'ids'. Did you mean 'id'? $names"""
    )
    assertEquals(
      message(rows.windowed(Tumbling("1 hour"), time = "at").agg(sum("idd"))),
      s"agg(...): the input has no column 'idd'. Did you mean 'id'? $names"
    )
  }

  test("a stream fires early, emits its late rows, and its open panes are read from the checkpoint") {
    TemporaryFolder.use { folder =>
      val source = folder.resolve("in").toString
      val checkpoint = folder.resolve("checkpoint").toString
      Files.createDirectory(folder.resolve("in"))
      def write(rows: (String, String)*): Unit =
        spark.createDataFrame(rows).toDF("at", "user").coalesce(1).write.mode("append").json(source)
      def run(panes: DataFrame): Set[String] = {
        val fired = Set.newBuilder[String]
        val query = panes.writeStream
          .foreachBatch { (batch: DataFrame, _: Long) =>
            fired ++= shown(batch, "user", "pane.firing", "n")
            ()
          }
          .option("checkpointLocation", checkpoint)
          .trigger(Trigger.AvailableNow())
          .start()
        query.awaitTermination()
        fired.result()
      }
      val files = spark.readStream.schema("at timestamp, user string")
      val clicks = files.json(source)
      // docs: stream
      val panes = clicks
        .withWatermark("at", "5 minutes")
        .windowed(
          Session("30 minutes"),
          time = "at",
          by = Seq("user"),
          early = Early.every("1 minute").orCount(100),
          late = Late.Emit
        )
        .agg(count("*").as("n"))
      // end
      write("2024-01-01 10:05:00" -> "ann")
      assertEquals(run(panes), Set.empty[String])
      write("2024-01-01 10:10:00" -> "ann")
      assertEquals(run(panes), Set("ann early 2"))
      write("2024-01-01 10:20:00" -> "ann", "2024-01-01 12:00:00" -> "bob")
      assertEquals(run(panes), Set("ann close 3", "bob early 1"))
      write("2024-01-01 08:00:00" -> "ann")
      assertEquals(run(panes), Set("ann late null"))
      assertEquals(shown(readPanes(spark, checkpoint), "user", "n"), Set("bob 1"))
    }
  }

  test("several windows share a query, and a pane may collect its rows") {
    val numbers = spark.range(10).select(timestamp_seconds(col("id")).as("at"), col("id"))
    // docs: together
    val both = together(
      "fives" -> numbers.windowed(Tumbling(5.seconds), time = col("at")).agg(sum("id").as("total")),
      "runs" -> numbers.windowed(Session(2.seconds), time = "at").agg(max("id").as("last"))
    )
    // end
    assertEquals(
      shown(both, "window_name", "total", "last"),
      Set("fives 10 null", "fives 35 null", "runs null 9")
    )
    val panes = numbers.windowed(Sliding("6 seconds", "3 seconds"), time = "at").collect(byTime = true)
    assertEquals(panes.select(size(col("rows"))).collect().map(_.getInt(0)).sorted.toSeq, Seq(1, 3, 4, 6, 6))
  }

  test("windows without rows repeat values, close for the keys of a table, and have the values of the pane before") {
    val rows = Seq((1, "a"), (32, "a")).map { case (t, k) => (new java.sql.Timestamp(t * 1000L), k) }
    val numbers = spark.createDataFrame(rows).toDF("at", "k")
    val before = functions.previous(count("*"))
    def panes(empty: Empty): Set[String] = shown(
      numbers
        .windowed(Tumbling("10 seconds"), time = "at", by = Seq(col("k")), empty = empty)
        .agg(count("*").as("n"), before.as("b")),
      "k",
      "n",
      "b"
    )
    assertEquals(panes(Empty.Skip), Set("a 1 null", "a 1 1"))
    assertEquals(panes(Empty.Emit), Set("a 1 null", "a 0 1", "a 0 0", "a 1 0"))
    assertEquals(panes(Empty.Forward), Set("a 1 null", "a 1 1"))
    val keys = spark.sql("SELECT 'b' AS k")
    assertEquals(panes(Empty.EmitFor(keys)), panes(Empty.Emit) ++ Set("b 0 null", "b 0 0"))
  }

  test("each kind of window can be asked for") {
    val numbers = spark
      .range(12)
      .select(
        timestamp_seconds(col("id")).as("at"),
        col("id"),
        (col("id") % 4 === 3).as("last"),
        (col("id") >= 6).as("up")
      )
    def panes(window: Window, time: Time = "at"): Long = numbers.windowed(window, time).agg(count("*").as("n")).count()
    assertEquals(panes(Tumbling.days(1, "Europe/Berlin")), 1L)
    assertEquals(panes(Tumbling.weeks(1, "UTC")), 1L)
    assertEquals(panes(Tumbling.months(3, "UTC")), 1L)
    assertEquals(panes(Tumbling.days(1, "Europe/Berlin", "5 hours")), 1L)
    assertEquals(panes(Tumbling.weeks(1, "UTC", java.time.DayOfWeek.SUNDAY)), 1L)
    assertEquals(panes(Tumbling.months(12, "UTC", offsetMonths = 3)), 1L)
    assertEquals(panes(Sliding.days(7, 1, "UTC")), 7L)
    assertEquals(panes(Sliding.weeks(2, 1, "UTC")), 2L)
    assertEquals(panes(Sliding.months(3, 1, "UTC")), 3L)
    assertEquals(panes(Cumulate("24 hours", "1 hour")), 24L)
    assertEquals(panes(Cumulate.within(Tumbling.days(1, "Europe/Berlin"), "1 hour")), 23L)
    assertEquals(panes(Cumulate.withinByDays(Tumbling.months(1, "UTC"), 1)), 31L)
    assertEquals(panes(Cumulate.withinByMonths(Tumbling.months(12, "UTC"), 3)), 4L)
    assertEquals(panes(Tumbling.fromFirstRow("7 seconds")), 2L)
    assertEquals(panes(Sliding("1 second", "1 minute", gaps = true)), 1L)
    assertEquals(panes(Around("1 second", 1.second)), 12L)
    assertEquals(panes(Session.byRow(expr("INTERVAL 2 SECONDS"))), 1L)
    assertEquals(panes(Session("2 seconds").maxLength("5 seconds")), 3L)
    assertEquals(panes(Session("2 seconds").endsWith(col("last"))), 3L)
    assertEquals(
      panes(Session.byRow(expr("INTERVAL 2 SECONDS")).maxLength("3 seconds").endsWith(col("last"))),
      6L
    )
    assertEquals(panes(Custom(struct(col("at").as("start"), (col("at") + expr("INTERVAL 1 SECOND")).as("end")))), 12L)
    assertEquals(panes(Count(4, 2), Time.Processing), 5L)
    assertEquals(panes(Count(5).timeout("10 seconds"), Time.Processing), 3L)
    assertEquals(panes(Global.every(5), Time.Processing), 2L)
    assertEquals(panes(Global.when(col("last")), Time.Processing), 3L)
    assertEquals(panes(Global.changes(col("up")), Time.Processing), 1L)
    assertEquals(panes(Global.when(sum("id") > 20), Time.Processing), 3L)
    assertEquals(panes(Global.every(5).endsWith(col("last")), Time.Processing), 3L)
    assertEquals(panes(Global.changes(col("up")).endsWith(sum("id") > 20), Time.Processing), 3L)
  }

  test("a length of time is a text or a duration of Scala or Java, and invalid ones are rejected with the fix") {
    assertEquals(Tumbling("90 seconds"), Tumbling(90.seconds))
    assertEquals(Tumbling(JavaDuration.ofSeconds(90)), Tumbling("1 minute 30 seconds"))
    assertEquals(("1 day 2 microseconds": Span).micros, 86400000002L)
    assertEquals(Session("10 minutes").toString, "Session(\"10 minutes\")")
    def refused(of: => Any): String = intercept[MullionException](of).getMessage
    assert(clue(refused(Tumbling("soon"))).contains("'soon' is not a length of time"))
    assert(clue(refused(Tumbling("1 month"))).contains("Tumbling.months"))
    assert(clue(refused(Tumbling(1.nanosecond))).contains("not whole microseconds"))
    assert(clue(refused(Sliding("1 second", "1 minute"))).contains("gaps = true"))
    assert(clue(refused(Sliding.days(7, 2, "UTC"))).contains("does not divide"))
    assert(clue(refused(Cumulate("1 minute", "7 seconds"))).contains("does not divide"))
    assert(clue(refused(Cumulate.within(Tumbling("1 day"), "1 hour"))).contains("Cumulate(size, step)"))
    assert(clue(refused(Cumulate.within(Tumbling.days(1, "Europe/Berlin"), "5 hours"))).contains("does not divide"))
    assert(clue(refused(Session("1 hour").maxLength("1 minute"))).contains("Tumbling.fromFirstRow"))
    assert(clue(refused(Tumbling.days(1, "Mars"))).contains("'Mars' is not a time zone"))
  }

  test("a row is joined with the nearest one in time") {
    val numbers = spark.range(10).select(timestamp_seconds(col("id")).as("at"), (col("id") % 2).as("k"), col("id"))
    val others = numbers.where("id IN (2, 7)").withColumnRenamed("at", "then")
    def joined(direction: AsOfDirection) = shown(
      asOfJoin(numbers, others, Seq("k"), "at", "then", tolerance = Some("3 seconds"), direction)
        .where("id > 2 AND id < 8"),
      "id",
      "id_right"
    )
    assertEquals(joined(AsOf.Backward), Set("3 null", "4 2", "5 null", "6 null", "7 7"))
    assertEquals(joined(AsOf.Forward), Set("3 null", "4 null", "5 7", "6 null", "7 7"))
    assertEquals(joined(AsOf.Nearest), Set("3 null", "4 2", "5 7", "6 null", "7 7"))
    val error = intercept[MullionException](asOfJoin(numbers, others, Nil, "at", "then", direction = AsOf.Nearest))
    assert(clue(error.getMessage).startsWith("""direction = "nearest" needs tolerance ="""))
  }

  test("rows are joined with those in the same window") {
    val numbers = spark.range(10).select(timestamp_seconds(col("id")).as("at"), (col("id") % 2).as("k"), col("id"))
    val others = numbers.where("id IN (2, 7)").withColumnRenamed("at", "then")
    def joined(how: JoinKind, window: Window = Tumbling("4 seconds")) = windowedJoin(
      numbers.where("id > 1"),
      others,
      window,
      Seq("k"),
      "at",
      Some("then"),
      how,
      allowedLateness = "1 second",
      late = Late.Emit
    )
    assertEquals(shown(joined(How.Inner), "id", "id_right"), Set("2 2", "5 7", "7 7"))
    assertEquals(shown(joined(How.Left), "id", "id_right").size, 8)
    assertEquals(joined(How.Full, Session("1 second")).columns.last, "late_row")
    def refused(of: => Any): String = intercept[MullionException](of).getMessage
    assert(clue(refused(joined(How.Left, Count(3)))).contains("needs windows that both sides share"))
    assert(
      clue(refused(joined(How.Left, Session("1 second").endsWith(col("then") === col("then")))))
        .startsWith("endsWith of the window reads the column 'then', which the left side does not have")
    )
    assert(
      clue(refused(windowedJoin(numbers, others, Tumbling("1 second"), Seq("k"), "at", late = Late.Reopen)))
        .startsWith("late = Late.Reopen: the pairs of a window are emitted once")
    )
    assert(
      clue(refused(windowedJoin(numbers, others, Tumbling("1 second"), Seq("k"), "at", Some("gone"))))
        .startsWith("rightTime = \"gone\": the right side has no column 'gone'")
    )
  }

  test("errors of Python are errors here, with the fix") {
    val numbers = spark.range(3).select(timestamp_seconds(col("id")).as("at"), col("id"))
    def refused(of: => Any): String = intercept[MullionException](of).getMessage
    assert(
      clue(refused(numbers.windowed(Tumbling("1 hour"), Time.Processing, late = Late.Emit).agg(count("*"))))
        .startsWith("late = has no effect on processing time")
    )
    assert(
      clue(refused(numbers.windowed(Count(3), time = "at").collect(byTime = false, maxRows = 0)))
        .startsWith("maxRows = 0 is not above 0")
    )
  }
}

private object ScalaApiSuite {

  /** Rows as a set of texts, because their order is undefined. */
  def shown(frame: DataFrame, columns: String*): Set[String] =
    frame.selectExpr(columns: _*).collect().map((row: Row) => row.toSeq.mkString(" ")).toSet

}
