package org.apache.spark.sql.mullion.state.rocksdb

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}

import dev.mullion._

class ClosedAtExitSuite extends SparkSuite {
  override protected def settings: Seq[(String, String)] =
    Seq("spark.sql.extensions" -> classOf[MullionExtensions].getName)

  test("stores of an ended query are closed, once, and the next query opens its own") {
    for (_ <- 0 until 2) {
      assertEquals(panes(), 1L)
      assert(StateStore.isMaintenanceRunning)
      ClosedAtExit.closeAll()
      assert(!StateStore.isMaintenanceRunning)
      ClosedAtExit.closeAll()
    }
  }

  /** The number of panes of a query that ran to the end of its input. */
  private def panes(): Long = TemporaryFolder.use { folder =>
    val input = MemoryStream[Long](spark, 2)(Encoders.scalaLong)
    input.addData(1L, 20L)
    val query = input
      .toDF()
      .select(timestamp_seconds(col("value")).as("ts"))
      .withWatermark("ts", "0 seconds")
      .windowed(Tumbling("10 seconds"), time = "ts")
      .agg(count(lit(1)).as("n"))
      .writeStream
      .format("memory")
      .queryName("closed_at_exit")
      .option("checkpointLocation", folder.toString)
      .start()
    try query.processAllAvailable()
    finally query.stop()
    spark.table("closed_at_exit").count()
  }
}
