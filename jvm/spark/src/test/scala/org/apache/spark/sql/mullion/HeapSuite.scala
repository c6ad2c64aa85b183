package org.apache.spark.sql.mullion

import java.nio.file.{Files, Path}
import java.sql.Timestamp

import scala.jdk.CollectionConverters._
import scala.util.Using

import munit.Slow

import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.functions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.checkpoint.evolve.RecordsInState
import org.apache.spark.sql.mullion.plan.options.WindowOptions
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.{Column, DataFrame, Encoders}

import dev.mullion.windows.rules.AsOfDirection
import dev.mullion.windows.spec.WindowSpec
import dev.mullion.{
  asOfJoin,
  functions,
  savepoint,
  windowedJoin,
  AsOf,
  Asked,
  Facade,
  How,
  MullionExtensions,
  Span,
  Tumbling
}

/** The heap of queries does not grow with their batches. It compares the live objects of Mullion's classes once panes
  * open and close at the same rate, and many batches later.
  */
class HeapSuite extends SparkSuite {
  import HeapSuite._

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.extensions" -> classOf[MullionExtensions].getName,
    "spark.sql.shuffle.partitions" -> "1",
    "spark.sql.streaming.checkpointFileManagerClass" -> classOf[FileSystemBasedCheckpointFileManager].getName
  )

  test("a query keeps as much after many batches as after a few, of every window".tag(Slow)) {
    within { folder =>
      // One per query: several queries may commit to one source out of order, which it rejects.
      val sources = kinds.map(_ => MemoryStream[KeyedRow](spark, 1)(Encoders.product[KeyedRow]))
      val queries = kinds.zip(sources).zipWithIndex.map { case (((window, format), source), i) =>
        spark.conf.set(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key, format.toLong)
        start(window(timed(source)), folder.resolve(i.toString))
      }
      try {
        val batches = new Batches({ rows =>
          sources.foreach(_.addData(rows))
          queries.foreach(_.processAllAvailable())
        })
        batches.runTo(Few)
        val before = LiveObjects.counts()
        batches.runTo(Many)
        assertEquals(grown(before), Nil)
        assert(clue(before).exists(_._1.endsWith(".packed.Segments$Segment")), "nothing was counted")
      } finally queries.foreach(_.stop())
    }
  }

  test("contents and joins keep as much after many batches as after a few: heap, state and files".tag(Slow)) {
    withinFewFiles { folder =>
      val sources = contents.map(_ => MemoryStream[KeyedRow](spark, 1)(Encoders.product[KeyedRow]))
      val queries = contents.zip(sources).zipWithIndex.map { case (((_, panes), source), i) =>
        start(panes(timed(source)), folder.resolve(i.toString))
      }
      def sizes = contents.zip(queries).zipWithIndex.map { case (((name, _), query), i) =>
        (name, query.lastProgress.stateOperators.map(_.numRowsTotal).sum, filesIn(folder.resolve(i.toString)))
      }
      try {
        val batches = new Batches({ rows =>
          sources.foreach(_.addData(rows))
          queries.foreach(_.processAllAvailable())
        })
        // Windows have the same rows in both counts.
        batches.runTo((Few / 10 + 1) * 10)
        val (before, first) = (LiveObjects.counts(), sizes)
        batches.runTo((Many / 10 + 1) * 10)
        assertEquals(grown(before), Nil)
        first.zip(sizes).foreach { case ((name, records, files), (_, recordsNow, filesNow)) =>
          println(s"$name: $records records and $files files, then $recordsNow and $filesNow")
          assert(recordsNow <= records, s"$name: $records records, then $recordsNow")
          // Maintenance is some batches behind. A file that each batch leaves has a checksum next to it.
          assert(filesNow <= files + 40, s"$name: $files files, then $filesNow")
          assert(records >= 20, s"$name: nothing was counted")
        }
      } finally queries.foreach(_.stop())
    }
  }

  test("a query that has changed keeps as much after many batches as after a few: heap, state and files".tag(Slow)) {
    withinFewFiles { folder =>
      val lives = changes.zipWithIndex.map { case (change, i) =>
        new Life(change, MemoryStream[KeyedRow](spark, 1)(Encoders.product[KeyedRow]), folder.resolve(i.toString))
      }
      try {
        val batches = new Batches(rows => lives.foreach(_.run(rows)))
        batches.runTo(Few / 2)
        lives.foreach(_.becomes())
        batches.runTo(Few + 30)
        val (before, sizes) = (LiveObjects.counts(), lives.map(_.sizes))
        batches.runTo(Many + 30)
        assertEquals(grown(before), Nil)
        lives.zip(sizes).foreach { case (life, (records, files)) =>
          val (recordsNow, filesNow) = life.sizes
          assert(recordsNow <= records + 40, s"${life.change.name}: $records records, then $recordsNow")
          assert(filesNow <= files + (Many - Few) / 2, s"${life.change.name}: $files files, then $filesNow")
          assert(records >= 20, s"${life.change.name}: nothing was counted")
          println(s"${life.change.name}: $records records and $files files, then $recordsNow and $filesNow")
        }
      } finally lives.foreach(_.stop())
    }
  }

  /** Runs batches, each with one row of 20 keys. */
  private final class Batches(run: Seq[KeyedRow] => Unit) {
    private var number = 0

    def runTo(until: Int): Unit = while (number < until) {
      run((0 until 20).map(k => KeyedRow(new Timestamp(1000L * number), k, number % 3)))
      number += 1
    }
  }

  /** A checkpoint keeps the files of few batches, so that their number is constant. */
  private def withinFewFiles(body: Path => Unit): Unit = {
    val retained = Seq(
      SQLConf.MIN_BATCHES_TO_RETAIN.key -> "2",
      SQLConf.STREAMING_MAINTENANCE_INTERVAL.key -> "200ms",
      SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key -> "1"
    )
    retained.foreach { case (key, value) => spark.conf.set(key, value) }
    try within(body)
    finally retained.foreach { case (key, _) => spark.conf.unset(key) }
  }

  private def filesIn(folder: Path): Int =
    Using.resource(Files.walk(folder))(_.iterator.asScala.count(Files.isRegularFile(_)))

  /** A query before and after its change. */
  private final class Life(val change: Change, source: MemoryStream[KeyedRow], checkpoint: Path) {
    private var panes = change.before(timed(source))
    private var at = checkpoint
    private var query = start(panes, at)

    def run(rows: Seq[KeyedRow]): Unit = {
      source.addData(rows)
      query.processAllAvailable()
    }

    def becomes(): Unit = {
      query.stop()
      val previous = panes
      panes = change.after(timed(source))
      if (change.moves) {
        at = checkpoint.resolveSibling(s"${checkpoint.getFileName}-moved")
        savepoint(spark, checkpoint.toString, at.toString, panes = Some(panes), sparkQuery = Some(previous))
      }
      query = start(panes, at)
    }

    def stop(): Unit = query.stop()

    /** The number of records in state, and of files in the checkpoint. */
    def sizes: (Int, Int) = {
      val records = RecordsInState.of(spark, Classic.frame(panes), at).flatMap(_.values).sum
      (records, filesIn(at))
    }
  }

  /** The classes that have gained more than one object for every second batch. */
  private def grown(before: Map[String, Long]): Seq[String] = LiveObjects.grown(before, (Many - Few) / 2 + 1)

  test("the memory of a query's state is free after its end") {
    within { folder =>
      def records() = LiveObjects.counts().collect { case (name, count) if name.endsWith(".btree.Leaf") => count }.sum
      val interval = SQLConf.STREAMING_MAINTENANCE_INTERVAL.key
      spark.conf.set(interval, "100ms")
      spark.conf.set(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key, 1L)
      try {
        val source = MemoryStream[KeyedRow](spark, 1)(Encoders.product[KeyedRow])
        val query = start(tumbling(timed(source)), folder.resolve("checkpoint"))
        try {
          source.addData((0 until 2000).map(k => KeyedRow(new Timestamp(1000L), k, 0)))
          query.processAllAvailable()
          assert(clue(records()) >= 2000 / 128, "nothing was counted")
        } finally query.stop()
        // Each measurement collects garbage, which is slow.
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

  private type Kind = DataFrame => DataFrame

  private def of(window: WindowSpec, by: String*): Kind = windowed(_, window, by)

  private def windowed(rows: DataFrame, window: WindowSpec, by: Seq[String]): DataFrame =
    Asked.windowed(
      rows,
      window,
      by.map(col).toArray,
      Asked.options.withTime(col("ts")),
      Array(count(lit(1)).as("n"), collect_list(col("v")).as("vs"))
    )

  private val deduplicated: Kind = rows =>
    Asked.windowed(
      rows,
      Asked.sliding(20 * Second, 5 * Second, 0),
      Array(col("k")),
      Asked.options.withTime(col("ts")).withDedupeBy(Array(col("v"))),
      Array(count(lit(1)).as("n"))
    )

  /** Panes with their rows, which fire early too. */
  private val collected: Kind = rows =>
    Asked.windowed(
      rows,
      Asked.tumbling(10 * Second, 0),
      Array(col("k")),
      Asked.options
        .withTime(col("ts"))
        .withEarly(2 * Second, false)
        .withCollect(byTime = false, name = "rows", maxRows = 1000),
      Array()
    )

  private val tumbling = of(Asked.tumbling(10 * Second, 0), "k")
  private val together: Kind = rows =>
    Facade.together(
      Array("short", "long"),
      Array(Asked.tumbling(5 * Second, 0), Asked.sliding(10 * Second, 5 * Second, 0)).map { window =>
        windowed(rows, window, Seq("k"))
      }
    )

  /** @param moves
    *   whether it was of Spark's own window
    */
  final case class Change(
      name: String,
      before: DataFrame => DataFrame,
      after: DataFrame => DataFrame,
      moves: Boolean = false
  )

  private def several(windows: (String, WindowSpec)*): DataFrame => DataFrame = rows =>
    Facade.together(windows.map(_._1).toArray, windows.map(of => panesOf(of._2, _.withDropOnChange)(rows)).toArray)

  private def panesOf(window: WindowSpec, change: WindowOptions => WindowOptions)(rows: DataFrame): DataFrame =
    Asked.windowed(
      rows,
      window,
      Array(col("k")),
      change(Asked.options.withTime(col("ts"))),
      Array(count(lit(1)).as("n"), sum(col("v")).as("total"))
    )

  private val (short, long) = (Asked.tumbling(5 * Second, 0), Asked.sliding(10 * Second, 5 * Second, 0))
  private val gap = Asked.session(Second / 2)

  /** Queries that change. */
  private val changes: Seq[Change] = Seq(
    Change("a window that drained", panesOf(short, identity), panesOf(gap, _.withDrainOnChange)),
    Change(
      "windows of which one is gone, one new and one renamed",
      several("far" -> long, "near" -> short),
      several("by_five" -> short, "gaps" -> gap)
    ),
    Change("one of several windows", several("far" -> long, "near" -> short), panesOf(short, _.withDropOnChange)),
    Change(
      "a window that was Spark's",
      rows =>
        rows.groupBy(window(col("ts"), "5 seconds"), col("k")).agg(count(lit(1)).as("n"), sum(col("v")).as("total")),
      panesOf(short, identity),
      moves = true
    )
  )

  private def panes(change: WindowOptions => WindowOptions, columns: Column*): Kind = rows =>
    Asked.windowed(
      rows,
      Asked.tumbling(10 * Second, 0),
      Array(col("k")),
      change(Asked.options.withTime(col("ts"))),
      columns.toArray
    )

  private def others(rows: DataFrame): DataFrame = rows.select(col("ts").as("at"), col("k").as("k"), col("v").as("w"))

  private def asOf(direction: AsOfDirection, tolerance: Option[Span]): Kind = rows =>
    asOfJoin(rows, others(rows), Seq("k"), "ts", "at", tolerance, direction)

  /** Contents of panes, and joins. */
  private val contents: Seq[(String, Kind)] = Seq(
    "distinct values" -> panes(identity, count_distinct(col("v")).as("n"), sum_distinct(col("v")).as("total")),
    "top n" -> panes(identity, functions.topN(2, col("v"), col("v"), col("ts")).as("top")),
    "the previous pane" -> panes(identity, functions.previous(sum(col("v"))).as("before")),
    "windows without rows that repeat values" -> panes(_.withForward, sum(col("v")).as("total")),
    "an as-of join" -> asOf(AsOf.Backward, None),
    "an as-of join within a tolerance" -> asOf(AsOf.Backward, Some("3 seconds")),
    "a nearest join" -> asOf(AsOf.Nearest, Some("3 seconds")),
    "a windowed join" -> (rows =>
      windowedJoin(rows, others(rows), Tumbling("5 seconds"), Seq("k"), "ts", Some("at"), How.Full)
    )
  )

  /** Windows, and formats of checkpoints. */
  private val kinds: Seq[(Kind, Int)] = Seq(
    (tumbling, 1),
    (tumbling, 2),
    (of(Asked.sliding(20 * Second, 5 * Second, 0), "k"), 1),
    (of(Asked.session(3 * Second), "k", "v"), 1),
    (of(Asked.session(3 * Second), "k", "v"), 2),
    (of(Asked.around(5 * Second, Second), "k"), 1),
    (of(Asked.count(7, 7, None), "k"), 1),
    (deduplicated, 1),
    (collected, 1),
    (collected, 2),
    (together, 1),
    (together, 2)
  )

  // Uploads of snapshots continue after a query has ended.
  private def within(body: Path => Unit): Unit =
    TemporaryFolder.use(folder =>
      try body(folder)
      finally StateStore.stop()
    )
}

final case class KeyedRow(ts: Timestamp, k: Int, v: Int)
