package org.apache.spark.sql.mullion.checkpoint.compare

import java.nio.file.Path
import java.sql.Timestamp
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.annotation.tailrec

import org.apache.hadoop.fs.{Path => HadoopPath}

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.mullion.checkpoint.recover.TimedRow
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.{functions => F, DataFrame, Encoders}

import dev.mullion.windows.spec.WindowSpec
import dev.mullion.{readPanes, savepoint, Asked}

/** Queries over checkpoints of both formats, with batches that run several times. */
class RepeatedBatchSuite extends SparkSuite {
  import RepeatedBatchSuite._

  override protected def cores: Int = 4

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.adaptive.enabled" -> "false",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "1",
    "spark.sql.streaming.stateStore.maintenanceInterval" -> "50ms"
  )

  override def beforeAll(): Unit = {
    super.beforeAll()
    // Maintenance has the interval of the first query of the process.
    StateStore.stop()
  }

  for (format <- Seq("1", "2")) {
    test(s"maintenance between two actions of a batch leaves the state as it is, format $format") {
      TemporaryFolder.use { folder =>
        val query = new Query(folder, format)
        query.run(batches = 4) { (rows, batch) =>
          rows.count()
          if (batch == 1) Seq(0, 1).foreach(partition => query.await(partition, version = 2, ".zip", run = 1))
          rows.collect()
          ()
        }
        query.requireRows(batches = 4)
      }
    }

    test(s"a task of a run that has ended commits after its batch was repeated, format $format") {
      TemporaryFolder.use { folder =>
        val query = new Query(folder, format)
        val late = new Late
        RepeatedBatchSuite.late = late
        val fails = F.udf { () => RepeatedBatchSuite.late.work(); 1 }.asNondeterministic()
        query.run(batches = 1)((rows, _) => { rows.collect(); () })
        intercept[StreamingQueryException] {
          query.run(batches = 1) { (rows, _) =>
            rows.select(fails()).collect()
            ()
          }
        }
        query.run(batches = 3, failed = 1)((rows, _) => { rows.collect(); () })
        late.gate.countDown()
        query.await(late.partition, version = 2, ".changelog", run = 2)
        query.requireRows(batches = 4)
      }
    }
  }

  /** A query that counts rows of eight keys. */
  private final class Query(folder: Path, format: String) {
    private val checkpoint = folder.resolve("checkpoint").toString
    private val source = MemoryStream[TimedRow](spark, 2)(Encoders.product[TimedRow])
    private val savepoints = Iterator.from(0).map(n => folder.resolve(s"savepoint-$n").toString)

    private def panes = {
      val rows = source.toDF().withWatermark("ts", "0 seconds")
      val window: WindowSpec = Asked.tumbling(1000000000000L, 0L)
      val options = Asked.options.copy(time = Some(F.col("ts"))).withEarlyCount(1)
      Asked.windowed(rows, window, Array(F.col("k")), options, Array(F.count(F.lit(1)).as("n")))
    }

    /** @param failed
      *   the number of earlier attempts that failed
      */
    def run(batches: Int, failed: Int = 0)(take: (DataFrame, Long) => Unit): Unit = {
      spark.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", format)
      val query = panes.writeStream
        .foreachBatch(take)
        .option("checkpointLocation", checkpoint)
        .start()
      try {
        if (failed > 0) query.processAllAvailable()
        (failed until batches).foreach { batch =>
          source.addData((0 until 8).map(k => TimedRow(new Timestamp(1000L + batch), k)))
          query.processAllAvailable()
        }
      } finally query.stop()
    }

    /** Waits until a run's file of a version exists. */
    @tailrec
    def await(partition: Int, version: Long, ending: String, run: Long): Unit = {
      val path = new HadoopPath(s"$checkpoint/state/0/$partition")
      val names = path.getFileSystem(spark.sessionState.newHadoopConf()).listStatus(path).map(_.getPath.getName)
      if (!names.exists(name => name.startsWith(s"${version}_$run-") && name.endsWith(ending))) {
        Thread.sleep(10)
        await(partition, version, ending, run)
      }
    }

    /** Checks that all readers of the checkpoint find the rows of this number of batches in each pane, and that the
      * query continues.
      */
    def requireRows(batches: Int): Unit = {
      def counts(of: String) =
        readPanes(spark, of).select("k", "n").collect().map(r => r.getInt(0) -> r.getLong(1)).toMap
      assertEquals(counts(checkpoint), (0 until 8).map(_ -> batches.toLong).toMap)
      val copy = savepoints.next()
      savepoint(spark, checkpoint, copy)
      assertEquals(counts(copy), counts(checkpoint))
      run(batches = 2)((rows, _) => { rows.collect(); () })
      assertEquals(counts(checkpoint), (0 until 8).map(_ -> (batches + 2L)).toMap)
    }
  }
}

object RepeatedBatchSuite {

  // Tasks of local mode are in this process.
  @volatile private var late: Late = _

  /** Fails in one of two tasks, and blocks the other one until the gate opens. */
  final class Late {
    val gate = new CountDownLatch(1)
    private val reached = new CountDownLatch(1)
    private val isHeld = new AtomicBoolean
    @volatile var partition: Int = -1

    def work(): Unit = {
      val own = TaskContext.getPartitionId()
      if (isHeld.compareAndSet(false, true)) {
        partition = own
        reached.countDown()
      }
      if (own == partition) waitFor(gate)
      else {
        waitFor(reached)
        throw new IllegalStateException("the sink is not available")
      }
    }

    // Spark interrupts a task to end it.
    @tailrec
    private def waitFor(latch: CountDownLatch): Unit = {
      val isOpen =
        try latch.await(5, TimeUnit.MINUTES)
        catch { case _: InterruptedException => false }
      if (!isOpen) waitFor(latch)
    }
  }
}
