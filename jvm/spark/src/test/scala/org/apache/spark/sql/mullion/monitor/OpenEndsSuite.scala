package org.apache.spark.sql.mullion.monitor

import java.sql.Timestamp

import scala.util.Random

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.checkpoint.inspect.OpenPanes
import org.apache.spark.sql.mullion.plan.options.WindowOptions
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.{DataFrame, Encoders}

import dev.mullion.windows.spec.WindowSpec
import dev.mullion.{Asked, Facade, MullionExtensions, TestSeed}

/** The counts of open panes by the end of their windows, which each batch changes and stores, compared with the panes
  * in state.
  */
class OpenEndsSuite extends SparkSuite {
  private val second = 1000000L

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.extensions" -> classOf[MullionExtensions].getName
  )

  private def of(window: WindowSpec, options: WindowOptions = Asked.options)(rows: DataFrame): DataFrame =
    Asked.windowed(rows, window, Array(col("k")), options.withTime(col("ts")), Array(count(lit(1)).as("n")))

  private val tens = Asked.tumbling(10 * second, 0)
  private val sliding = Asked.sliding(30 * second, 10 * second, 0)
  private val late = Asked.options.withAllowedLateness(7 * second)

  private val kinds: Seq[(String, DataFrame => DataFrame)] = Seq(
    "tumbling" -> of(tens, late),
    "tumbling, from its first row" -> of(Asked.fromFirstRow(10 * second)),
    "tumbling, early and on time" -> of(tens, late.withOnTime(true).withEarly(3 * second, unchanged = false)),
    "sliding" -> of(sliding, late),
    "sliding, early" -> of(sliding, Asked.options.withEarly(3 * second, unchanged = true)),
    "sliding, empty ones too" -> of(sliding, late.withEmpty(true)),
    "sliding, not accumulating" -> of(sliding, Asked.options.withEarlyCount(2).withAccumulate(false)),
    "cumulative" -> of(Asked.cumulate(30 * second, 10 * second, 0)),
    "around" -> of(Asked.around(8 * second, 3 * second)),
    "session" -> of(Asked.session(4 * second), late.withLate("emit")),
    "session, reopened" -> of(Asked.session(4 * second), Asked.options.withLate("reopen")),
    "session of limited length" -> of(Asked.session(Some(4 * second), Some(20 * second), endsWithRow = false)),
    "clock per key" -> of(tens, Asked.options.withClockPerKey(followsWall = false)),
    "session, clock per key" -> of(Asked.session(4 * second), Asked.options.withClockPerKey(followsWall = false)),
    "each row" -> of(sliding, Asked.options.withRunning),
    "together" -> (rows => Facade.together(Array("a", "b"), Array(of(tens)(rows), of(sliding, late)(rows))))
  )

  private def start(panes: DataFrame, checkpoint: String): StreamingQuery =
    panes.writeStream.format("noop").option("checkpointLocation", checkpoint).start()

  /** The counts that the last batch reported, and the panes in state. */
  private def check(query: StreamingQuery, hint: String): Unit = {
    val report = QueryMonitor.of(spark.sparkContext).query(query.runId).get.operators.head.last.get
    val ends = report.openEnds
    assertEquals(ends.total, report.panesOpen, hint)
    OpenPanes
      .of(query, 0, None, None)
      .select(unix_micros(col("window.end")))
      .collect()
      .foreach(row => ends.remove(row.getLong(0)))
    assert(ends.isEmpty, s"$hint: ${ends.bars} are not in state")
  }

  private def rowsOf(random: Random, batch: Int): Seq[Timed] = Seq.fill(1 + random.nextInt(12)) {
    Timed(new Timestamp(1000L * (20 + batch * 6 + random.nextInt(25) - random.nextInt(12))), random.nextInt(5))
  }

  for ((kind, panes) <- kinds)
    test(
      s"each batch, restart and lost count leaves the counts of the panes in state: $kind (seed ${TestSeed.value})"
    ) {
      TemporaryFolder.use { folder =>
        val random = new Random(TestSeed.value + kind.hashCode)
        val source = MemoryStream[Timed](spark, 1)(Encoders.product[Timed])
        val results = panes(source.toDF().withWatermark("ts", "5 seconds"))
        for (run <- 0 until 4) {
          // The third run does not count, so that the fourth has nothing to start from.
          if (run == 2) spark.conf.set(MonitorSettings.Tab, "false")
          val query = start(results, folder.toString)
          try
            for (batch <- run * 3 until run * 3 + 3) {
              source.addData(rowsOf(random, batch))
              query.processAllAvailable()
              if (run != 2) check(query, s"batch $batch")
            }
          finally {
            query.stop()
            spark.conf.unset(MonitorSettings.Tab)
          }
        }
      }
    }

  test("windows of row numbers have no ends") {
    TemporaryFolder.use { folder =>
      val source = MemoryStream[Timed](spark, 1)(Encoders.product[Timed])
      val counted =
        Asked.windowed(
          source.toDF(),
          Asked.count(3, 3, None),
          Array(col("k")),
          Asked.options,
          Array(count(lit(1)).as("n"))
        )
      val query = start(counted, folder.toString)
      try {
        source.addData(rowsOf(new Random(TestSeed.value), 0))
        query.processAllAvailable()
        val report = QueryMonitor.of(spark.sparkContext).query(query.runId).get.operators.head.last.get
        assert(clue(report.panesOpen) > 0)
        assert(report.openEnds.isEmpty)
      } finally query.stop()
    }
  }
}

final case class Timed(ts: Timestamp, k: Int)
