package org.apache.spark.sql.mullion

import java.lang.management.ManagementFactory
import java.nio.file.{Files, Path}

import scala.concurrent.duration.{Duration, DurationInt}
import scala.jdk.CollectionConverters._
import scala.util.Using

import com.sun.management.{ThreadMXBean => AllocatingThreads}
import munit.FunSuite

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.functions._

import dev.mullion.{Facade, MullionExtensions}
import dev.mullion.windows.WindowSpec

/** The bytes that tasks allocate for a row, and for a pane: counted by the JVM for each thread, whatever a clock says.
  *
  * Two streams are run that differ in one thing alone, and what a batch of the one allocates beyond a batch of the
  * other is what that thing costs. A row that boxes one number more is 16 bytes over.
  */
class AllocationSuite extends FunSuite {
  import AllocationSuite._

  override val munitTimeout: Duration = 5.minutes

  private lazy val spark: SparkSession = SparkSession
    .builder()
    .master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.extensions", classOf[MullionExtensions].getName)
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.streaming.checkpointFileManagerClass", classOf[FileSystemBasedCheckpointFileManager].getName)
    .config("spark.hadoop.fs.file.impl", classOf[QuietLocalFileSystem].getName)
    .getOrCreate()

  override def afterAll(): Unit = spark.stop()

  for (
    (name, window, perRow, perPane) <- Seq(
      ("tumbling", Facade.tumbling(10 * Second, 0), 8L, TumblingPane),
      ("sliding", Facade.sliding(20 * Second, Second, 0), 8L, SlidingPane)
    )
  ) {
    test(s"a row allocates nothing on its way into its partial aggregate: $name") {
      // Of a few keys: ten more rows for each group.
      val few = allocated(window, rows = 20000, keys = 10)
      val many = allocated(window, rows = 220000, keys = 10)
      val each = (many - few) / 200000
      assert(clue(each) <= perRow)
    }

    test(s"what a pane allocates is bounded: $name") {
      val few = allocated(window, rows = 20000, keys = 1000)
      val many = allocated(window, rows = 20000, keys = 11000)
      val each = (many - few) / 10000
      assert(clue(each) <= perPane)
      assert(clue(each) > 0L)
    }
  }

  /** The bytes that tasks allocate in the median of the warm batches. */
  private def allocated(window: WindowSpec, rows: Long, keys: Long): Long = within { folder =>
    val source = folder.resolve("rows").toString
    for (batch <- 0L until Batches) {
      val times = timestamp_micros((lit(batch) * rows + col("id")) * (10 * Second) / rows)
      val made = spark.range(rows).select(times.as("ts"), pmod(col("id"), lit(keys)).as("k"), col("id").as("v"))
      made.coalesce(1).write.mode("append").parquet(source)
    }
    val stream = spark.readStream.schema("ts timestamp, k bigint, v bigint").option("maxFilesPerTrigger", 1)
    val timed = stream.parquet(source).withWatermark("ts", "0 seconds")
    val panes = Facade.windowed(
      timed,
      window,
      Array(col("k")),
      Facade.options.withTime(col("ts")).withState("memory"),
      Array(count(lit(1)).as("n"), sum("v").as("total"))
    )
    val seen = Seq.newBuilder[Long]
    val query = panes.writeStream
      .foreachBatch { (batch: org.apache.spark.sql.Dataset[org.apache.spark.sql.Row], _: Long) =>
        val before = byTasks()
        batch.agg(sum("n")).collect()
        seen += byTasks() - before
        ()
      }
      .option("checkpointLocation", folder.resolve("checkpoint").toString)
      .trigger(org.apache.spark.sql.streaming.Trigger.AvailableNow())
      .start()
    query.awaitTermination()
    val warm = seen.result().slice(2, Batches.toInt).sorted
    warm(warm.size / 2)
  }
}

private object AllocationSuite {
  val Second = 1000000L
  val Batches = 5L

  /** Bytes: what was measured, and a quarter more. */
  val TumblingPane = 3000L
  val SlidingPane = 3000L

  private val threads = ManagementFactory.getThreadMXBean.asInstanceOf[AllocatingThreads]

  /** All bytes that the threads of tasks have allocated so far. */
  def byTasks(): Long = {
    val tasks = Thread.getAllStackTraces.keySet.asScala.filter(_.getName.startsWith("Executor task launch"))
    tasks.toSeq.map(thread => threads.getThreadAllocatedBytes(thread.getId)).sum
  }

  def within[A](body: Path => A): A = {
    val folder = Files.createTempDirectory("allocations")
    try body(folder)
    finally
      Using.resource(Files.walk(folder)) { files =>
        files.sorted(java.util.Comparator.reverseOrder[Path]()).forEach(Files.deleteIfExists(_): Unit)
      }
  }
}
