package org.apache.spark.sql.mullion.operator.assign

import java.nio.file.Files
import java.sql.Timestamp

import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeWatermarkExec
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.mullion.SparkSuite
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.{functions => F, DataFrame, Encoders}

import dev.mullion.Asked

/** The event-time statistics of a query, with Spark's watermark and with Mullion's. */
class FusedWatermarkSuite extends SparkSuite {

  override protected def cores: Int = 2

  private def eventTimes(windowed: DataFrame => DataFrame): (Seq[Map[String, String]], Seq[EventTimeWatermarkExec]) = {
    val encoder = Encoders.product[Timed]
    val source = MemoryStream[Timed](spark, 3)(encoder)
    val rows = source.toDF().toDF("ts", "k").withWatermark("ts", "5 seconds")
    val query = windowed(rows).writeStream
      .format("noop")
      .option("checkpointLocation", Files.createTempDirectory("watermark").toString)
      .start()
    def times(of: Seq[Long]): Unit = {
      source.addData(of.map(ms => Timed(new Timestamp(ms), ms % 3)))
      query.processAllAvailable()
    }
    try {
      times(Seq(1000, 2001, 61003))
      times(Nil)
      times(Seq(-1, -1500, 500, 7))
      times(Seq(120000))
      (eventTimes(query), watermarks(query))
    } finally query.stop()
  }

  private def eventTimes(query: StreamingQuery): Seq[Map[String, String]] =
    query.recentProgress.toSeq.filter(_.numInputRows > 0).map { progress =>
      val times = progress.eventTime
      Seq("max", "min", "avg", "watermark").map(name => name -> times.get(name)).toMap
    }

  private def watermarks(query: StreamingQuery): Seq[EventTimeWatermarkExec] =
    lastPlan(query).collect { case w: EventTimeWatermarkExec => w }

  test("the times of rows that a query tells are those of Spark's own watermark") {
    val (sparks, plain) = eventTimes(_.groupBy(F.window(F.col("ts"), "10 seconds"), F.col("k")).count())
    val (ours, fused) = eventTimes { rows =>
      val options = Asked.options.withTime(F.col("ts"))
      Asked.windowed(rows, Asked.tumbling(10000000L, 0), Array(F.col("k")), options, Array(F.count("*").as("count")))
    }
    assertEquals(ours, sparks)
    assertEquals(ours.map(_("max")).last, "1970-01-01T00:02:00.000Z")
    assert(fused.nonEmpty && fused.forall(_.isInstanceOf[FusedWatermarkExec]), fused)
    assert(plain.nonEmpty && plain.forall(!_.isInstanceOf[FusedWatermarkExec]), plain)
  }
}

final case class Timed(ts: Timestamp, k: Long)
