package org.apache.spark.sql.mullion.checkpoint.recover

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
import org.apache.spark.sql.mullion.query.note.CheckpointFiles
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.{functions => F, Encoders}

import dev.mullion.Asked
import dev.mullion.windows.spec.WindowSpec

/** Recoveries that are interrupted at each of their steps, and repeated. */
class RecoverySuite extends SparkSuite {

  override protected def cores: Int = 2

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.streaming.checkpointFileManagerClass" -> classOf[MortalFileManager].getName
  )

  for (lastIsDone <- Seq(true, false)) {
    val last = if (lastIsDone) "that is done" else "that was begun"
    test(s"a recovery from a batch $last may be cut short at any step, and be done again") {
      TemporaryFolder.use { folder =>
        val checkpoint = folder.resolve("checkpoint")
        run(checkpoint, batches = 7)
        if (!lastIsDone)
          Files.list(checkpoint.resolve("commits")).iterator.asScala.filter(isOf("6", _)).foreach(Files.delete)
        val copy = copied(checkpoint, folder.resolve("whole"))
        val back = recover(copy)
        assertEquals(back, 3L)
        assertEquals(recover(copy), 0L, "it can go on")

        val cut = Iterator
          .from(0)
          .map { steps =>
            val part = copied(checkpoint, folder.resolve(s"cut-$steps"))
            val isCut =
              try {
                MortalFileManager.diesAfter(steps) { recover(part) }
                false
              } catch { case _: IOException => true }
            val again = recover(part)
            assert(again == back || !isCut && again == 0L, s"$again after $steps steps")
            assertEquals(contents(part), contents(copy), s"after $steps steps")
            isCut
          }
          .takeWhile(identity)
          .size
        // The plan, two offsets, one commit, the version of state.
        assert(clue(cut) >= 5)
      }
    }
  }

  private def recover(checkpoint: Path): Long = Recovery.recover(spark, checkpoint.toString, new NotedVersions(_))

  private def run(checkpoint: Path, batches: Int): Unit = {
    val encoder = Encoders.product[TimedRow]
    val source = MemoryStream[TimedRow](spark, 2)(encoder)
    val rows = source.toDF().withWatermark("ts", "0 seconds")
    val options = Asked.options.copy(time = Some(F.col("ts")))
    val window: WindowSpec = Asked.tumbling(10000000L, 0L)
    val panes = Asked.windowed(rows, window, Array(F.col("k")), options, Array(F.count(F.lit(1)).as("n")))
    val query = panes.writeStream.format("noop").option("checkpointLocation", checkpoint.toString).start()
    try
      (0 until batches).foreach { batch =>
        // No pane closes.
        source.addData((0 until 5).map(k => TimedRow(new Timestamp(1000L + batch), k)))
        query.processAllAvailable()
      }
    finally query.stop()
  }

  /** The files from which a query continues. */
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

/** Versions of state that are files naming their source version. The first and the fourth can be read. */
private final class NotedVersions(home: HadoopPath) extends KeptVersions {
  private val files = CheckpointFileManager.create(home, new Configuration())
  private val folder = new HadoopPath(home, "versions")

  private def file(version: Long) = new HadoopPath(folder, version.toString)

  override def upTo(last: Long): Set[Long] =
    (Set(1L, 4L) ++ (if (files.exists(file(last))) Set(last) else Nil)).filter(_ <= last)

  override def isWhole(version: Long): Boolean = true

  override def carry(from: Long, to: Long): KeptVersions.Ids = {
    CheckpointFiles.write(files, file(to), from.toString.getBytes("UTF-8"))
    Map.empty
  }
}

final case class TimedRow(ts: Timestamp, k: Int)

/** Files of a checkpoint, whose writer may be killed. */
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
  private val stepsLeft = new AtomicInteger(Int.MaxValue)

  /** Kills the writer after a number of steps. */
  def diesAfter(steps: Int)(body: => Any): Unit = {
    stepsLeft.set(steps)
    try body
    finally stepsLeft.set(Int.MaxValue)
  }

  private def step(): Unit =
    if (stepsLeft.get != Int.MaxValue && stepsLeft.getAndDecrement() <= 0) throw new IOException("killed")
}
