package org.apache.spark.sql.mullion.monitor.ui

import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.sql.Timestamp

import org.json4s._
import org.json4s.jackson.JsonMethods.parse

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.monitor.{MonitorSettings, QueryMonitor}
import org.apache.spark.sql.mullion.plan.options.WindowOptions
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.{DataFrame, Encoders}

import dev.mullion.windows.spec.WindowSpec
import dev.mullion.{Asked, Facade, MullionExtensions}

/** The tab of the web UI and the metrics, read over HTTP from the server of Spark. */
class WindowsTabSuite extends SparkSuite {
  private implicit val formats: Formats = DefaultFormats
  private val second = 1000000L

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.ui.enabled" -> "true",
    "spark.ui.port" -> "0",
    "spark.driver.host" -> "127.0.0.1",
    "spark.sql.extensions" -> classOf[MullionExtensions].getName,
    "spark.metrics.conf.*.sink.prometheusServlet.class" -> "org.apache.spark.metrics.sink.PrometheusServlet",
    "spark.metrics.conf.*.sink.prometheusServlet.path" -> "/metrics/prometheus"
  )

  private def get(path: String): HttpResponse[String] = {
    val client = HttpClient.newBuilder.followRedirects(HttpClient.Redirect.NORMAL).build()
    val request = HttpRequest.newBuilder(URI.create(spark.sparkContext.uiWebUrl.get + path)).build()
    client.send(request, HttpResponse.BodyHandlers.ofString())
  }

  private def json(path: String = ""): JValue = parse(get(s"/windows/json/$path").body)

  /** The events of queries that listeners have not processed yet. */
  private def waitForListeners(): Unit = spark.sparkContext.listenerBus.waitUntilEmpty()

  private def at(second: Int, k: Int = 0): TimedKey = TimedKey(new Timestamp(1000L * second), k)

  private def within(name: String, window: WindowSpec, delay: String = "5 seconds")(
      body: (MemoryStream[TimedKey], StreamingQuery) => Unit
  ): Unit =
    TemporaryFolder.use { folder =>
      val source = MemoryStream[TimedKey](spark, 1)(Encoders.product[TimedKey])
      val panes = of(window)(source.toDF().withWatermark("ts", delay))
      val query = panes.writeStream.format("noop").queryName(name).option("checkpointLocation", folder.toString).start()
      try body(source, query)
      finally {
        query.stop()
        waitForListeners()
      }
    }

  private def run(source: MemoryStream[TimedKey], query: StreamingQuery)(rows: TimedKey*): Unit = {
    source.addData(rows)
    query.processAllAvailable()
  }

  /** The report of the operator of the newest query. */
  private def report(): JValue = (json() \ "query" \ "operators")(0) \ "report"

  private def tabs: Seq[String] = spark.sparkContext.ui.get.getTabs.map(_.prefix)

  private def metrics(name: String): Map[String, Long] = {
    val line = s"metrics_.*_driver_mullion_${name}_0_(\\w+)_Value\\{.*\\} (-?\\d+)".r
    get("/metrics/prometheus/").body.linesIterator.collect { case line(metric, value) => metric -> value.toLong }.toMap
  }

  test("a setting hides the tab of a query that runs") {
    spark.conf.set(MonitorSettings.Tab, "false")
    try
      within("hidden", Asked.tumbling(10 * second, 0)) { (source, query) =>
        run(source, query)(at(1))
        assert(!clue(tabs).contains("windows"))
      }
    finally spark.conf.unset(MonitorSettings.Tab)
  }

  test("the tab shows the clock of a query, its stream, its late rows and its state, and keeps them after its end") {
    within("<script>alert(1)</script>", Asked.tumbling(10 * second, 0)) { (source, query) =>
      run(source, query)(at(1), at(2, k = 1), at(30))
      run(source, query)(at(3), at(9), at(28), at(31))
      val shown = report()
      assertEquals((shown \ "clockMs").extract[Long], 26000L)
      assertEquals((shown \ "nextDueMs").extract[Long], 30000L)
      val reason = (shown \ "reason").extract[String]
      assert(
        clue(reason).startsWith(
          "2 panes are open. The next one waits for 4 seconds of event time. The clock is held by "
        )
      )
      assert(reason.contains("no row after 1970-01-01T00:00:31Z"))
      assert(clue(reason).endsWith(" advances the clock without rows."))
      assertEquals((shown \ "panesOpen").extract[Long], 2L)
      assertEquals((shown \ "lateness" \ "rows").extract[Seq[Long]], Seq(0L, 0L, 2L, 0L, 0L, 0L, 0L))
      assertEquals(
        (shown \ "lateness" \ "advice").extract[String],
        "A watermark delay of 1 minute 5 seconds instead of 5 seconds would have kept 99.9 % of the rows."
      )
      assertEquals((shown \ "rowsRead").extract[Long], 7L)
      assertEquals((shown \ "totals" \ "firingsClose").extract[Long], 2L)
      assertEquals((shown \ "recent" \ "closed").extract[Seq[Long]].sum, 2L)
      assertEquals((shown \ "state" \ "partitions").extract[Seq[Seq[Long]]].map(_.head).sorted, Seq(0L, 1L))
      assert(clue((shown \ "state" \ "diskBytes").extract[Long]) > 0)
    }
    val ended = json()
    assertEquals((ended \ "query" \ "isRunning").extract[Boolean], false)
    assert((ended \ "query" \ "title").extract[String].startsWith("<script>alert(1)</script> (id "))
    assertEquals((report() \ "panesOpen").extract[Long], 2L)
    assertEquals((json(s"?run=${(ended \ "query" \ "run").extract[String]}") \ "query"), ended \ "query")
  }

  test("the page is in Spark's frame, without any text of a query, and its script writes only text nodes") {
    val page = get("/windows")
    assertEquals(page.statusCode, 200)
    assertEquals(tabs.takeRight(2), Seq("StreamingQuery", "windows"))
    for (part <- Seq("/windows/", "Structured Streaming", """<script src="script/">"""))
      assert(clue(page.body).contains(part))
    assert(!page.body.contains("alert(1)"))
    val script = get("/windows/script/")
    assertEquals(script.headers.firstValue("Content-Type").get, "text/javascript;charset=utf-8")
    for (unsafe <- Seq("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("))
      assert(!script.body.contains(unsafe), unsafe)
  }

  /** The histogram of late rows of a query whose clock is at 95 seconds. */
  private def lateness(panes: DataFrame => DataFrame)(rows: TimedKey*): Seq[Long] = TemporaryFolder.use { folder =>
    val source = MemoryStream[TimedKey](spark, 1)(Encoders.product[TimedKey])
    val results = panes(source.toDF().withWatermark("ts", "5 seconds"))
    val query = results.writeStream.format("noop").option("checkpointLocation", folder.toString).start()
    try {
      run(source, query)(at(1), at(100))
      run(source, query)(rows: _*)
      (report() \ "lateness" \ "rows").extract[Seq[Long]]
    } finally query.stop()
  }

  private def of(window: WindowSpec, options: WindowOptions = Asked.options)(rows: DataFrame): DataFrame =
    Asked.windowed(rows, window, Array(col("k")), options.withTime(col("ts")), Array(count(lit(1)).as("n")))

  test("each kind of window has the lateness by which its panes had closed") {
    val late = Seq(at(84), at(89), at(20), at(100))
    val tens = Asked.tumbling(10 * second, 0)
    val expected = Seq(0L, 2L, 0L, 1L, 0L, 0L, 0L)
    assertEquals(lateness(of(tens))(late: _*), expected)
    assertEquals(lateness(of(tens, Asked.options.withRunning))(late: _*), expected)
    assertEquals(
      lateness(of(Asked.sliding(10 * second, 5 * second, 0)))(at(75), at(84)),
      Seq(0L, 1L, 1L, 0L, 0L, 0L, 0L)
    )
    assertEquals(lateness(of(Asked.session(10 * second)))(at(80), at(80), at(100)), Seq(0L, 2L, 0L, 0L, 0L, 0L, 0L))
    assertEquals(lateness(of(Asked.around(5 * second, 0)))(at(10)), Seq(0L, 0L, 0L, 1L, 0L, 0L, 0L))

    val together = (rows: DataFrame) =>
      Facade.together(Array("short", "long"), Array(of(tens)(rows), of(Asked.tumbling(60 * second, 0))(rows)))
    assertEquals(lateness(together)(at(84), at(20)), Seq(0L, 1L, 1L, 1L, 0L, 0L, 0L))

    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try {
      assertEquals(lateness(of(tens))(late: _*), expected)
      assertEquals(lateness(together)(at(84), at(20)), Seq(0L, 1L, 1L, 1L, 0L, 0L, 0L))
    } finally spark.conf.unset("spark.sql.codegen.wholeStage")
  }

  test("the metrics of a running query are in Spark's metrics system, and leave it with the query") {
    within("orders", Asked.tumbling(10 * second, 0)) { (source, query) =>
      run(source, query)(at(1), at(2, k = 1), at(30))
      run(source, query)(at(3), at(31))
      val shown = metrics("orders")
      val expected = Map(
        "panesOpen" -> 1L,
        "firingsClose" -> 2L,
        "rowsLate" -> 1L,
        "rowsLateUnder1min" -> 1L,
        "rowsRead" -> 5L,
        "clockMs" -> 26000L
      )
      assertEquals(shown.filter(metric => expected.contains(metric._1)), expected)
      assert(clue(shown("clockLagMs")) > 0)
      assert(clue(shown("watermarkLagMs0")) >= shown("clockLagMs"))
      assert(!shown.contains("watermarkLagMs1"))
      assert(clue(shown("stateBytes")) > 0)
    }
    assertEquals(metrics("orders"), Map.empty[String, Long])
    within("orders", Asked.tumbling(10 * second, 0)) { (source, query) =>
      run(source, query)(at(1))
      assertEquals(metrics("orders").get("panesOpen"), Some(1L))
    }
  }

  test("the answers for many open panes are small, and the page has their ends without a read of state") {
    within("many", Asked.tumbling(10 * second, 0), delay = "1 hour") { (source, query) =>
      run(source, query)((0 until 100000).map(k => at(k % 1000, k)): _*)
      assertEquals((report() \ "panesOpen").extract[Long], 100000L)
      assert(clue(get("/windows/json/").body.length) < 20000)
      val ends = report() \ "ends"
      assertEquals((ends \ "widthMs").extract[Long], 60000L)
      val bars = (ends \ "bars").extract[Seq[Seq[Long]]]
      assertEquals(bars.map(_.head), (0L to 16L).map(_ * 60000L))
      // Ten seconds have a thousand panes, and each minute but the first contains the ends of six windows.
      assertEquals(bars.map(_.last), 5000L +: Seq.fill(15)(6000L) :+ 5000L)

      val read = panesOf(query)
      val oldest = (read \ "oldest")(0)
      assertEquals((oldest \ "dueMs").extract[Long], 10000L)
      assert(clue((oldest \ "pane").extract[String]).contains("1970-01-01T00:00:10.000Z"))
      assertEquals((oldest \ "waitsFor").extract[String], "rows: there is no clock yet")
      assert(clue((oldest \ "heldBy").extract[String]).contains("no row after 1970-01-01T00:16:39Z"))

      query.stop()
      waitForListeners()
      assertEquals(report() \ "ends", ends)
      assertEquals((panesOf(query) \ "oldest").children.length, (read \ "oldest").children.length)
    }
  }

  private def panesOf(query: StreamingQuery, key: Option[String] = None): JValue = {
    val chosen = key.fold("")(of => s"&key=$of")
    val body = get(s"/windows/panes/?run=${query.runId}&operator=0$chosen").body
    assert(clue(body.length) < 30000)
    parse(body)
  }

  test("the largest keys are those with most rows, and the panes of a key are listed in order of time") {
    within("keys", Asked.tumbling(10 * second, 0), delay = "20 seconds") { (source, query) =>
      run(source, query)(at(15, k = 7), at(16, k = 7), at(31, k = 7), at(15, k = 8), at(25, k = 8), at(29, k = 9))
      val keys = (panesOf(query) \ "largest").children
      val largest = keys.map { of =>
        ((of \ "key").extract[String], (of \ "panes").extract[Long], (of \ "rows").extract[Long])
      }
      assertEquals(largest, List(("""{"k":7}""", 2L, 3L), ("""{"k":8}""", 2L, 2L), ("""{"k":9}""", 1L, 1L)))
      val of = panesOf(query, Some((keys.head \ "id").extract[String]))
      assertEquals((of \ "key").extract[String], """{"k":7}""")
      assertEquals((of \ "isOfTime").extract[Boolean], true)
      assertEquals(
        (of \ "panes").children.map(pane => ((pane \ "start").extract[Long], (pane \ "end").extract[Long])),
        List((10000L, 20000L), (30000L, 40000L))
      )
      assertEquals(((of \ "panes")(1) \ "waitsFor").extract[String], "29 seconds of event time")
      assertEquals((panesOf(query, Some("1")) \ "panes").children, Nil)
    }
  }

  test("panes of an unknown operator, and of a query whose state is gone, have an error as text") {
    assertEquals(get("/windows/panes/?run=1&operator=0").statusCode, 400)
    val run = ((json() \ "queries")(1) \ "run").extract[String]
    val gone = parse(get(s"/windows/panes/?run=$run&operator=0").body)
    assert(clue((gone \ "error").extract[String]).startsWith("The open panes cannot be read: "))
  }

  test("an invalid setting fails the query at its start") {
    spark.conf.set(MonitorSettings.ClockAfter, "soon")
    try
      within("invalid", Asked.tumbling(10 * second, 0)) { (source, query) =>
        source.addData(Seq(at(1)))
        val error = intercept[Exception](query.processAllAvailable())
        assert(clue(error.getMessage).contains(s"${MonitorSettings.ClockAfter}=soon"))
      }
    finally spark.conf.unset(MonitorSettings.ClockAfter)
  }

  test("a query without rows asks whether its clock has moved") {
    within("idle", Asked.tumbling(10 * second, 0)) { (source, query) =>
      run(source, query)(at(1))
      val monitored = QueryMonitor.of(spark.sparkContext).query(query.runId).get
      assertEquals(monitored.operators.map(_.description.clock.text), Seq("event time"))
      monitored.look()
    }
  }
}

final case class TimedKey(ts: Timestamp, k: Int)
