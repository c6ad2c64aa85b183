package org.apache.spark.sql.mullion

import java.lang.management.ManagementFactory
import java.nio.file.Path

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.sun.management.{ThreadMXBean => AllocatingThreads}

import org.apache.spark.sql.{DataFrame, Dataset, Row}
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.Trigger

import dev.mullion.{Asked, MullionExtensions}
import dev.mullion.windows.spec.WindowSpec

/** The bytes that tasks allocate per row and per key, counted by the JVM per thread.
  *
  * Two streams differ in one respect, and the difference of their allocations per batch is its cost. Boxing one more
  * number per row adds 16 bytes.
  */
class AllocationSuite extends SparkSuite {
  import AllocationSuite._

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.extensions" -> classOf[MullionExtensions].getName,
    "spark.sql.shuffle.partitions" -> "1",
    // The test mode copies each borrowed row.
    "spark.sql.streaming.stateStore.mullion.expireRows" -> "false",
    "spark.sql.streaming.checkpointFileManagerClass" -> classOf[FileSystemBasedCheckpointFileManager].getName
  )

  for (
    (name, window, perKey) <- Seq(
      ("tumbling", Asked.tumbling(10 * Second, 0), OfTumbling),
      ("sliding", Asked.sliding(20 * Second, Second, 0), OfSliding)
    )
  ) {
    test(s"a row allocates nothing on its way into its partial aggregate: $name windows") {
      val each = (ofRows(Some(window)) - withoutWindows) / 50000.0
      assert(clue(each) <= OfRow)
    }

    test(s"what a key allocates is bounded: $name windows") {
      val few = allocated(Some(window), rows = 20000, keys = 1000)
      val each = (allocated(Some(window), rows = 20000, keys = 10000) - few) / 9000.0
      assert(clue(each) > 0 && each <= perKey)
    }
  }

  /** The allocation of 50,000 more rows of the same few keys. */
  private def ofRows(window: Option[WindowSpec]): Long =
    allocated(window, rows = 70000, keys = 10) - allocated(window, rows = 20000, keys = 10)

  /** Without windows rows are read and then dropped. */
  private lazy val withoutWindows = ofRows(None)

  private lazy val home = TemporaryFolder.make()

  override def afterAll(): Unit = {
    TemporaryFolder.delete(home)
    super.afterAll()
  }

  /** The rows of several queries, one file per batch. */
  private def written(rows: Long, keys: Long): Path = sources.getOrElseUpdate(
    (rows, keys), {
      val source = home.resolve(s"$rows-$keys")
      for (batch <- 0L until Batches) {
        val times = expr(s"timestamp_micros((${batch * rows} + id) * ${10 * Second} div $rows) AS ts")
        val input = spark.range(rows).select(times, pmod(col("id"), lit(keys)).as("k"), lit(1L).as("v"))
        input.coalesce(1).write.mode("append").parquet(source.toString)
      }
      source
    }
  )

  private val sources = mutable.Map.empty[(Long, Long), Path]

  /** The bytes that tasks allocate in the median of the warm batches, for panes or for the rows alone. */
  private def allocated(window: Option[WindowSpec], rows: Long, keys: Long): Long = TemporaryFolder.use { folder =>
    val stream = spark.readStream.schema("ts timestamp, k bigint, v bigint").option("maxFilesPerTrigger", 1)
    val timed = stream.parquet(written(rows, keys).toString).withWatermark("ts", "0 seconds")
    val panes = window.fold(timed.withColumn("total", col("v")).where(rand() < 0): DataFrame) { window =>
      val options = Asked.options.withTime(col("ts"))
      Asked.windowed(timed, window, Array(col("k")), options, Array(sum("v").as("total")))
    }
    val bytesPerBatch = Seq.newBuilder[Long]
    val query = panes.writeStream
      .foreachBatch { (batch: Dataset[Row], _: Long) =>
        val before = byTasks()
        batch.agg(sum("total")).collect()
        bytesPerBatch += byTasks() - before
        ()
      }
      .option("checkpointLocation", folder.resolve("checkpoint").toString)
      .trigger(Trigger.AvailableNow())
      .start()
    query.awaitTermination()
    // The first batches compile; one without rows may be the last.
    val warm = bytesPerBatch.result().slice(2, Batches.toInt).sorted
    warm(warm.size / 2)
  }
}

private object AllocationSuite {
  val Second = 1000000L
  val Batches = 5L

  /** Too many bytes. A row took none; a key, from its partial aggregate to the close of its panes, 620 with one
    * tumbling pane and 7,400 with about forty sliding ones.
    */
  val OfRow = 8.0
  val OfTumbling = 1200.0
  val OfSliding = 15000.0

  private val threads = ManagementFactory.getThreadMXBean.asInstanceOf[AllocatingThreads]

  /** All bytes that the threads of tasks have allocated so far. */
  def byTasks(): Long = {
    val tasks = Thread.getAllStackTraces.keySet.asScala.filter(_.getName.startsWith("Executor task"))
    tasks.toSeq.map(thread => threads.getThreadAllocatedBytes(thread.getId)).sum
  }

}
