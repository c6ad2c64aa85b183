package org.apache.spark.sql.mullion.checkpoint

import java.io.IOException
import java.nio.file.{Files, Path}
import java.sql.Timestamp
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}

import org.apache.spark.sql.execution.streaming.checkpointing.{
  CheckpointFileManager,
  FileSystemBasedCheckpointFileManager
}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.{functions => F, Encoders}
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.mullion.state.StateChoice

import dev.mullion.Asked
import dev.mullion.windows.spec.WindowSpec

/** Recoveries that are cut short at each of their steps, and done again. */
class RecoverySuite extends SparkSuite {

  override protected def cores: Int = 2

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.streaming.checkpointFileManagerClass" -> classOf[MortalFileManager].getName,
    "spark.sql.streaming.stateStore.mullion.snapshotEvery" -> "4"
  )

  for (lastIsDone <- Seq(true, false)) {
    val last = if (lastIsDone) "that is done" else "that was begun"
    test(s"a recovery from a batch $last may be cut short at any step, and be done again") {
      TemporaryFolder.use { folder =>
        val checkpoint = folder.resolve("checkpoint")
        run(checkpoint, batches = 7)
        // Its snapshot is of a batch that was not committed, too.
        if (!lastIsDone)
          Files.list(checkpoint.resolve("commits")).iterator.asScala.filter(isOf("6", _)).foreach(Files.delete)
        val whole = copied(checkpoint, folder.resolve("whole"))
        val back = Recovery.recover(spark, whole.toString)
        assertEquals(back, 3L)
        assertEquals(Recovery.recover(spark, whole.toString), 0L, "it can go on")

        val cut = Iterator
          .from(0)
          .map { steps =>
            val part = copied(checkpoint, folder.resolve(s"cut-$steps"))
            val isCut =
              try {
                MortalFileManager.diesAfter(steps) { Recovery.recover(spark, part.toString) }
                false
              } catch { case _: IOException => true }
            val again = Recovery.recover(spark, part.toString)
            assert(again == back || !isCut && again == 0L, s"$again after $steps steps")
            assertEquals(contents(part), contents(whole), s"after $steps steps")
            isCut
          }
          .takeWhile(identity)
          .size
        // A note of what is to be done, two of offsets, one of a commit, two partitions.
        assert(clue(cut) >= 6)
      }
    }
  }

  private def run(checkpoint: Path, batches: Int): Unit = {
    val encoder = Encoders.product[TimedRow]
    val source = MemoryStream[TimedRow](spark, 2)(encoder)
    val rows = source.toDF().withWatermark("ts", "0 seconds")
    val options = Asked.options.copy(time = Some(F.col("ts")), state = StateChoice.Memory)
    val window: WindowSpec = Asked.tumbling(10000000L, 0L)
    val panes = Asked.windowed(rows, window, Array(F.col("k")), options, Array(F.count(F.lit(1)).as("n")))
    val query = panes.writeStream.format("noop").option("checkpointLocation", checkpoint.toString).start()
    try
      (0 until batches).foreach { batch =>
        // None closes.
        source.addData((0 until 5).map(k => TimedRow(new Timestamp(1000L + batch), k)))
        query.processAllAvailable()
      }
    finally query.stop()
  }

  /** What a query goes on from, by file. */
  private def contents(checkpoint: Path): Map[String, Seq[Byte]] =
    Using.resource(Files.walk(checkpoint)) { files =>
      files.iterator.asScala
        .filter(file => Files.isRegularFile(file) && !file.getFileName.toString.startsWith("."))
        .map(file => checkpoint.relativize(file).toString -> Files.readAllBytes(file).toSeq)
        .toMap
    }

  private def copied(from: Path, to: Path): Path = {
    Using.resource(Files.walk(from))(_.iterator.asScala.foreach { file =>
      Files.copy(file, to.resolve(from.relativize(file).toString))
    })
    to
  }

  private def isOf(batch: String, file: Path): Boolean = Set(batch, s".$batch.crc")(file.getFileName.toString)

}

final case class TimedRow(ts: Timestamp, k: Int)

/** Files of a checkpoint, whose writer may be told to die. */
final class MortalFileManager(path: HadoopPath, conf: Configuration)
    extends FileSystemBasedCheckpointFileManager(path, conf) {
  override def delete(path: HadoopPath): Unit = {
    MortalFileManager.step()
    super.delete(path)
  }

  override def createAtomic(
      path: HadoopPath,
      overwriteIfPossible: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream = {
    MortalFileManager.step()
    super.createAtomic(path, overwriteIfPossible)
  }
}

object MortalFileManager {
  private val left = new AtomicInteger(Int.MaxValue)

  /** Has the writer die before the step after so many. */
  def diesAfter(steps: Int)(body: => Any): Unit = {
    left.set(steps)
    try body
    finally left.set(Int.MaxValue)
  }

  private def step(): Unit =
    if (left.get != Int.MaxValue && left.getAndDecrement() <= 0) throw new IOException("killed")
}
