package org.apache.spark.sql.mullion.monitor.ui

import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.sql.Timestamp

import org.json4s._
import org.json4s.jackson.JsonMethods.parse

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.ui.WebUI
import org.apache.spark.{SecurityManager, SparkConf}

import dev.mullion.{Asked, MullionExtensions}

/** The tab of the history server, from the event log of an application. */
class HistorySuite extends SparkSuite {
  private implicit val formats: Formats = DefaultFormats
  private val second = 1000000L
  private lazy val logs = TemporaryFolder.make()

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.extensions" -> classOf[MullionExtensions].getName,
    "spark.eventLog.enabled" -> "true",
    "spark.eventLog.dir" -> logs.toUri.toString
  )

  override def afterAll(): Unit = {
    super.afterAll()
    TemporaryFolder.delete(logs)
  }

  private def run(name: String, rows: Int*): Unit = TemporaryFolder.use { folder =>
    val source = MemoryStream[TimedKey](spark, 1)(Encoders.product[TimedKey])
    val times = source.toDF().withWatermark("ts", "5 seconds")
    val options = Asked.options.withTime(col("ts"))
    val panes =
      Asked.windowed(times, Asked.tumbling(10 * second, 0), Array(col("k")), options, Array(count(lit(1)).as("n")))
    val query = panes.writeStream.format("noop").queryName(name).option("checkpointLocation", folder.toString).start()
    try
      rows.foreach { at =>
        source.addData(Seq(TimedKey(new Timestamp(1000L * at), 0)))
        query.processAllAvailable()
      }
    finally query.stop()
    spark.sparkContext.listenerBus.waitUntilEmpty()
  }

  private def within(body: (String => HttpResponse[String]) => Unit): Unit = {
    val conf = new SparkConf()
      .set("spark.history.fs.logDirectory", logs.toUri.toString)
      .set("spark.history.ui.port", "0")
      .set("spark.ui.acls.enable", "false")
    // Its classes are private to their package.
    def create(name: String, arguments: AnyRef*): AnyRef =
      Class
        .forName(s"org.apache.spark.deploy.history.$name")
        .getConstructors
        .find(_.getParameterCount == arguments.length)
        .get
        .newInstance(arguments: _*)
        .asInstanceOf[AnyRef]
    val provider = create("FsHistoryProvider", conf)
    def call(method: String): Unit = { provider.getClass.getMethod(method).invoke(provider); () }
    val server = create("HistoryServer", conf, provider, new SecurityManager(conf), Int.box(0)) match {
      case server: WebUI => server
      case other         => fail(s"$other")
    }
    server.bind()
    try {
      call("checkForLogs")
      val client = HttpClient.newBuilder.followRedirects(HttpClient.Redirect.NORMAL).build()
      val base = s"http://127.0.0.1:${server.boundPort}/history/${spark.sparkContext.applicationId}"
      body { path =>
        client.send(HttpRequest.newBuilder(URI.create(base + path)).build(), HttpResponse.BodyHandlers.ofString())
      }
    } finally {
      server.stop()
      call("stop")
    }
  }

  test("the history server shows the last reports of each query") {
    run("first", 1, 2)
    run("second", 1, 42, 44)
    within { get =>
      assert(clue(get("/jobs/").body).contains("windows"))
      val page = get("/windows/")
      assertEquals(page.statusCode, 200)
      assert(clue(page.body).contains("""<script src="script/">"""))
      val shown = parse(get("/windows/json/").body)
      assertEquals(
        (shown \ "queries" \ "title").children.map(_.extract[String].takeWhile(_ != ' ')),
        List("second", "first")
      )
      val query = shown \ "query"
      assertEquals((query \ "isRunning").extract[Boolean], false)
      assertEquals((query \ "hasOpenState").extract[Boolean], false)
      val report = (query \ "operators")(0) \ "report"
      assertEquals((report \ "panesOpen").extract[Long], 1L)
      assertEquals((report \ "ends" \ "bars").extract[Seq[Seq[Long]]], Seq(Seq(50000L, 1L)))
      assertEquals((report \ "totals" \ "firingsClose").extract[Long], 1L)
      val first = ((shown \ "queries")(1) \ "run").extract[String]
      val chosen = parse(get(s"/windows/json/?run=$first").body) \ "query"
      assertEquals((chosen \ "run").extract[String], first)
      assert(clue(get(s"/windows/panes/?run=$first&operator=0").body).contains("the application has ended"))
    }
  }
}
