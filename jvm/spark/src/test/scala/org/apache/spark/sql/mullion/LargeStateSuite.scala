package org.apache.spark.sql.mullion

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Using

import munit.Slow

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProvider}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.checkpoint.evolve.RecordsInState
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.streaming.{StateOperatorProgress, StreamingQuery}
import org.apache.spark.sql.{Column, DataFrame, Dataset, Encoders, Row}

import dev.mullion.windows.spec.WindowSpec
import dev.mullion.{Asked, MullionExtensions}

/** State of ten times the memory of its cache, over three hundred batches.
  *
  * Rows come in waves: ten batches of few rows, in which state fits into the cache, and twenty of many rows, in which
  * it grows to ten times the cache. Each wave repeats the rows of the last one, four minutes later. So all that a query
  * keeps is the same at the end of each wave.
  * {{{
  * batch     0    10        30   40        60          300
  * state     |____/~~~~~~~~~\____/~~~~~~~~~\_   ..  ~~~|
  *                          1 wave                     10 waves
  * }}}
  */
class LargeStateSuite extends SparkSuite {
  import LargeStateSuite._

  override protected def cores: Int = 2

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.extensions" -> classOf[MullionExtensions].getName,
    SQLConf.MIN_BATCHES_TO_RETAIN.key -> "2",
    // The test runs maintenance itself, after each batch.
    SQLConf.STATE_STORE_MIN_DELTAS_FOR_SNAPSHOT.key -> "1",
    SQLConf.STREAMING_MAINTENANCE_INTERVAL.key -> "1d"
  )

  for (kind <- kinds)
    test(s"state of ten times its cache gives Spark's panes and does not grow: ${kind.name}".tag(Slow)) {
      TemporaryFolder.use { folder =>
        val needed = new Running(spark, kind, folder.resolve("cached")).use { query =>
          query.run(until = Wave)
          query.metric("hotBytes")
        }
        val cache = CacheSize("a tenth", Some(s"${needed / 10}b"))
        val running = new Running(cache.session(spark), kind, folder.resolve("cold"))
        running.use { query =>
          query.run(until = Batches / 2)
          val (state, files, bytes, objects) =
            (query.state, query.files.length, query.files.sum, LiveObjects.counts())
          assertEquals(query.metric("hotPartitions"), 0L, "state fits into its cache")
          assert(clue(query.metric("panesOpen")) > 4000)

          query.run(until = Batches)
          assertEquals(query.state, state)
          // How RocksDB has arranged its files differs.
          assert(query.files.length < files + Batches / 6, s"$files files, then ${query.files.length}")
          assert(query.files.sum < 2 * bytes, s"$bytes bytes of files, then ${query.files.sum}")
          assertEquals(LiveObjects.grown(objects, more = 100), Nil)
          assert(query.mostCached > 0, "state was never in its cache")
          assert(query.mostCached <= needed / 10, s"${query.mostCached} bytes in a cache of ${needed / 10}")
          println(
            s"${kind.name}: $needed bytes in memory, a cache of ${needed / 10}, $state, " +
              s"$files then ${query.files.length} files, $bytes then ${query.files.sum} bytes"
          )

          query.close()
          assertEquals(query.state, Map("panesOpen" -> kind.openAtEnd, "records" -> kind.left.values.sum.toLong))
        }
        assertEquals(RecordsInState.of(spark, running.panes, running.checkpoint), Seq(kind.left))

        val expected = kind.inSpark(rows(spark.range(Batches.toLong).toDF("batch")))
        val (out, count) = (running.output, expected.count())
        assertEquals(out.count(), count)
        assertEquals(out.exceptAll(expected).take(5).toSeq, Nil)
        println(s"${kind.name}: $count panes")
      }
    }
}

private object LargeStateSuite {
  private val Second = 1000000L

  val Batches = 300
  val Wave = 30
  private val FewRows = 20
  private val ManyRows = 2000
  private val Keys = 20000

  /** A batch has the event time of eight seconds, and its rows are up to eight seconds ahead. A wave has the length of
    * whole windows, and starts with one.
    */
  private val Base = 1699999920L

  /** The rows of batches by their numbers. A batch after the last one has a single row, which closes all earlier panes.
    */
  def rows(batches: DataFrame): DataFrame = {
    val phase = s"pmod(batch, $Wave)"
    val count = s"CASE WHEN batch >= $Batches THEN 1 WHEN $phase < 10 THEN $FewRows ELSE $ManyRows END"
    batches
      .selectExpr("batch", s"explode(sequence(1, $count)) AS row")
      .selectExpr("batch", s"xxhash64($phase, row) AS hash")
      .selectExpr(
        s"timestamp_micros(($Base + 8 * batch) * $Second + pmod(hash, 16 * $Second)) AS ts",
        s"pmod(xxhash64(hash), $Keys) AS k",
        "pmod(shiftright(hash, 20), 1000) AS v"
      )
  }

  private val aggregates: Seq[Column] = Seq(count(lit(1)).as("n"), sum("v").as("total"), max("v").as("most"))

  /** A kind of window, in Mullion and in Spark.
    *
    * @param openAtEnd
    *   the panes of the row that closes all others
    * @param left
    *   the records of these panes
    */
  final case class Kind(name: String, window: WindowSpec, sparks: Column, openAtEnd: Long, left: Map[String, Int]) {
    def panes(rows: DataFrame): DataFrame =
      Asked.windowed(rows, window, Array(col("k")), Asked.options.withTime(col("ts")), aggregates.toArray)

    def inSpark(rows: DataFrame): DataFrame =
      flat(rows.groupBy(sparks.as("window"), col("k")).agg(aggregates.head, aggregates.tail: _*))
  }

  val kinds: Seq[Kind] = Seq(
    Kind("tumbling", Asked.tumbling(80 * Second, 0), window(col("ts"), "80 seconds"), 1, Map("panes" -> 1)),
    Kind(
      "sliding",
      Asked.sliding(60 * Second, 15 * Second, 0),
      window(col("ts"), "60 seconds", "15 seconds"),
      4,
      Map("slices" -> 1, "keys" -> 1, "timers" -> 1)
    ),
    Kind(
      "session",
      Asked.session(40 * Second),
      session_window(col("ts"), "40 seconds"),
      1,
      Map("keys" -> 1, "timers" -> 1)
    )
  )

  private def flat(panes: DataFrame): DataFrame =
    panes.select("k", "window.start", "window.end", "n", "total", "most")

  /** A query whose source has the numbers of batches. */
  final class Running(spark: SparkSession, kind: Kind, folder: Path) {
    val checkpoint: Path = folder.resolve("checkpoint")
    private val source = MemoryStream[Long](spark, 1)(Encoders.scalaLong)
    private val timed = rows(source.toDF().toDF("batch")).withWatermark("ts", "8 seconds")
    val panes: org.apache.spark.sql.classic.DataFrame = Classic.frame(kind.panes(timed))
    private var batches = 0
    var mostCached = 0L
    private val query: StreamingQuery = panes.writeStream
      .foreachBatch { (batch: Dataset[Row], _: Long) => flat(batch).write.mode("append").parquet(out) }
      .option("checkpointLocation", checkpoint.toString)
      .start()

    def use[T](body: Running => T): T =
      try body(this)
      finally {
        query.stop()
        StateStore.stop()
      }

    def run(until: Int): Unit = {
      while (batches < until) {
        add(batches.toLong)
        batches += 1
        maintain()
      }
    }

    /** Closes all panes of the batches. */
    def close(): Unit = add(2L * Batches)

    private def add(batch: Long): Unit = {
      source.addData(batch)
      query.processAllAvailable()
      mostCached = mostCached.max(metric("hotBytes"))
    }

    private def progress: StateOperatorProgress = query.lastProgress.stateOperators.head

    def metric(name: String): Long = progress.customMetrics.get(name).longValue

    def state: Map[String, Long] = Map("panesOpen" -> metric("panesOpen"), "records" -> progress.numRowsTotal)

    /** The sizes of the files of state. */
    def files: Seq[Long] = Using.resource(Files.walk(checkpoint.resolve("state"))) {
      _.iterator.asScala.filter(Files.isRegularFile(_)).map(Files.size).toVector
    }

    private def out: String = folder.resolve("out").toString

    def output: DataFrame = spark.read.parquet(out)
  }

  /** Uploads snapshots and deletes old files. */
  private def maintain(): Unit = {
    val field = StateStore.getClass.getDeclaredFields.find(_.getName.endsWith("loadedProviders")).get
    field.setAccessible(true)
    val loaded = field.get(StateStore).asInstanceOf[scala.collection.Map[Any, StateStoreProvider]]
    loaded.values.foreach(_.doMaintenance())
  }
}
