package org.apache.spark.sql.mullion

import java.lang.management.ManagementFactory
import java.nio.file.Path
import java.sql.Timestamp
import javax.management.ObjectName

import scala.concurrent.duration.{Duration, DurationInt}

import munit.Slow

import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.functions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StreamingQuery

import dev.mullion.{Asked, Facade, MullionExtensions}
import dev.mullion.windows.spec.WindowSpec

/** What queries keep on the heap does not grow with their batches. Counted are the live objects of our own classes,
  * once the panes that open are as many as those that close, and many batches later.
  */
class HeapSuite extends SparkSuite {
  import HeapSuite._

  override val munitTimeout: Duration = 20.minutes

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.extensions" -> classOf[MullionExtensions].getName,
    "spark.sql.shuffle.partitions" -> "1",
    "spark.sql.streaming.checkpointFileManagerClass" -> classOf[FileSystemBasedCheckpointFileManager].getName
  )

  test("a query keeps as much after many batches as after a few, of every window, in every store".tag(Slow)) {
    within { folder =>
      // One for each query: several that commit to one source may do so out of order, which it refuses.
      val sources = kinds.map(_ => MemoryStream[KeyedRow](spark, 1)(Encoders.product[KeyedRow]))
      val queries = kinds.zip(sources).zipWithIndex.map { case (((window, state, format), source), i) =>
        spark.conf.set(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key, format.toLong)
        start(window(timed(source), state), folder.resolve(i.toString))
      }
      try {
        var batches = 0
        def run(until: Int): Unit = while (batches < until) {
          val rows = (0 until 20).map(k => KeyedRow(new Timestamp(1000L * batches), k, batches % 3))
          sources.foreach(_.addData(rows))
          queries.foreach(_.processAllAvailable())
          batches += 1
        }
        run(Few)
        val before = live()
        run(Many)
        // Less than one for each batch of a query.
        val grown = live().toSeq.collect {
          case (name, count) if count - before.getOrElse(name, 0L) > (Many - Few) / 2 =>
            s"$name: ${before.getOrElse(name, 0L)}, then $count"
        }
        assertEquals(grown, Nil)
        assert(clue(before).exists(_._1.endsWith(".segments.Segments$Segment")), "nothing was counted")
      } finally queries.foreach(_.stop())
    }
  }

  test("what queries keep of state is free once they have ended, in every store") {
    within { folder =>
      def records() = live().collect { case (name, count) if name.endsWith(".memory.Leaf") => count }.sum
      val interval = SQLConf.STREAMING_MAINTENANCE_INTERVAL.key
      spark.conf.set(interval, "100ms")
      spark.conf.set(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key, 1L)
      try {
        val stores = Seq("rocksdb", "memory")
        val sources = stores.map(_ => MemoryStream[KeyedRow](spark, 1)(Encoders.product[KeyedRow]))
        val queries = stores.zip(sources).map { case (state, source) =>
          start(tumbling(timed(source), state), folder.resolve(state))
        }
        try {
          val rows = (0 until 2000).map(k => KeyedRow(new Timestamp(1000L), k, 0))
          sources.foreach(_.addData(rows))
          queries.foreach(_.processAllAvailable())
          assert(clue(records()) >= 2 * 2000 / 128, "nothing was counted")
        } finally queries.foreach(_.stop())
        // Each look collects garbage, and takes as long as that does.
        val looks = Iterator.continually(records()).take(200)
        assert(looks.contains(0L), "records are still there")
      } finally spark.conf.unset(interval)
    }
  }

  private def timed(source: MemoryStream[KeyedRow]): DataFrame = source.toDF().withWatermark("ts", "0 seconds")

  private def start(panes: DataFrame, checkpoint: Path): StreamingQuery =
    panes.writeStream.format("noop").option("checkpointLocation", checkpoint.toString).start()
}

private object HeapSuite {
  private val Few = Integer.getInteger("mullion.heap.few", 15).toInt
  private val Many = Integer.getInteger("mullion.heap.many", 40).toInt
  private val Second = 1000000L

  private type Kind = (DataFrame, String) => DataFrame

  private def of(window: WindowSpec, by: String*): Kind = (rows, state) => windowed(rows, window, state, by)

  private def windowed(rows: DataFrame, window: WindowSpec, state: String, by: Seq[String]): DataFrame =
    Asked.windowed(
      rows,
      window,
      by.map(col).toArray,
      Asked.options.withTime(col("ts")).withState(state),
      Array(count(lit(1)).as("n"), collect_list(col("v")).as("vs"))
    )

  private val deduplicated: Kind = (rows, state) =>
    Asked.windowed(
      rows,
      Asked.sliding(20 * Second, 5 * Second, 0),
      Array(col("k")),
      Asked.options.withTime(col("ts")).withState(state).withDedupeBy(Array(col("v"))),
      Array(count(lit(1)).as("n"))
    )

  /** Panes with their rows, which fire early too. */
  private val collected: Kind = (rows, state) =>
    Asked.windowed(
      rows,
      Asked.tumbling(10 * Second, 0),
      Array(col("k")),
      Asked.options
        .withTime(col("ts"))
        .withState(state)
        .withEarly(2 * Second, false)
        .withCollect(byTime = false, name = "rows", maxRows = 1000),
      Array()
    )

  private val tumbling = of(Asked.tumbling(10 * Second, 0), "k")
  private val together: Kind = (rows, state) =>
    Facade.together(
      Array("short", "long"),
      Array(Asked.tumbling(5 * Second, 0), Asked.sliding(10 * Second, 5 * Second, 0)).map { window =>
        windowed(rows, window, state, Seq("k"))
      }
    )

  /** Windows, stores, and formats of checkpoints. */
  private val kinds: Seq[(Kind, String, Int)] = Seq(
    (tumbling, "rocksdb", 1),
    (tumbling, "rocksdb", 2),
    (tumbling, "hdfs", 1),
    (tumbling, "memory", 1),
    (tumbling, "memory", 2),
    (of(Asked.sliding(20 * Second, 5 * Second, 0), "k"), "rocksdb", 1),
    (of(Asked.session(3 * Second), "k", "v"), "rocksdb", 1),
    (of(Asked.session(3 * Second), "k", "v"), "rocksdb", 2),
    (of(Asked.around(5 * Second, Second), "k"), "rocksdb", 1),
    (of(Asked.count(7, 7), "k"), "rocksdb", 1),
    (deduplicated, "rocksdb", 1),
    (deduplicated, "memory", 1),
    (collected, "rocksdb", 1),
    (collected, "rocksdb", 2),
    (together, "rocksdb", 1),
    (together, "rocksdb", 2)
  )

  /** How many objects of each of our classes can be reached. */
  private def live(): Map[String, Long] = {
    val server = ManagementFactory.getPlatformMBeanServer
    val diagnostics = new ObjectName("com.sun.management:type=DiagnosticCommand")
    // Collected twice: what is referred to weakly is handed over by the first.
    def histogram() = server
      .invoke(
        diagnostics,
        "gcClassHistogram",
        Array[AnyRef](Array.empty[String]),
        Array(classOf[Array[String]].getName)
      )
      .toString
    histogram()
    histogram().linesIterator
      .map(_.trim.split("\\s+"))
      .collect { case Array(_, count, _, name, _*) if isOurs(name) => name -> count.toLong }
      .toMap
  }

  private def isOurs(name: String) =
    name.startsWith("dev.mullion.") || name.startsWith("org.apache.spark.sql.mullion.")

  // What uploads snapshots is at it after a query has ended, too.
  private def within(body: Path => Unit): Unit =
    TemporaryFolder.use(folder =>
      try body(folder)
      finally StateStore.stop()
    )
}

final case class KeyedRow(ts: Timestamp, k: Int, v: Int)
