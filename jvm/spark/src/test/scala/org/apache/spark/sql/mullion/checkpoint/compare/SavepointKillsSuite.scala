package org.apache.spark.sql.mullion.checkpoint.compare

import java.lang.management.ManagementFactory
import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._
import scala.util.Using

import munit.Slow

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.TemporaryFolder
import org.apache.spark.sql.streaming.Trigger

import dev.mullion.files.FaultyFiles
import dev.mullion.files.FaultyFiles.{Dies, Plan}
import dev.mullion.{MullionSuite, _}

/** A savepoint whose process is killed at each of its file operations: its place is empty or complete, and the next
  * savepoint to that place removes the leftovers. `-Dmullion.kills.first=` sets the first operation, and
  * `-Dmullion.kills.every=` the step, so that several processes can share the work.
  */
class SavepointKillsSuite extends MullionSuite {
  import SavepointKillsSuite._

  private lazy val spark = FileFaultsSuite.session()

  override def beforeAll(): Unit = spark.sparkContext.setLogLevel("OFF")

  override def afterAll(): Unit = spark.stop()

  test("a process that is killed at each operation of a savepoint".tag(Slow)) {
    TemporaryFolder.use { home =>
      val from = home.resolve("from")
      query(spark, home, from)
      val open = panes(from)
      assert(clue(open).length > 5)

      @tailrec
      def killed(at: Int): Int = {
        val to = home.resolve("to")
        val died = dies(home, at)
        if (Files.exists(to)) assertEquals(panes(to), open, s"operation $at")
        else {
          savepoint(spark, from.toString, to.toString, Some(2))
          assertEquals(panes(to), open, s"operation $at")
        }
        // One that died while writing its name stays for a day, and contains nothing else.
        if (died) assertEquals(leftovers(home).filterNot(isEmpty), Nil, s"operation $at")
        TemporaryFolder.delete(to)
        if (died) killed(at + Every) else at
      }

      val operations = killed(First)
      println(s"$operations operations of a savepoint, killed at each: nothing or all of it at its place")
      assert(clue(operations) > 15)
    }
  }

  private def panes(checkpoint: Path): Seq[String] =
    readPanes(spark, checkpoint.toString).drop("pane").toJSON.collect().toSeq.sorted

  private def leftovers(home: Path): Seq[Path] = Using.resource(Files.list(home)) {
    _.iterator.asScala.filter(_.getFileName.toString.contains(".savepoint-")).toVector
  }

  /** True if it only contains its note, possibly incomplete. */
  private def isEmpty(folder: Path): Boolean = Using.resource(Files.walk(folder)) {
    _.iterator.asScala.filter(Files.isRegularFile(_)).forall(_.getFileName.toString.contains(".writing"))
  }

  /** True if a process reached that operation. */
  private def dies(home: Path, at: Int): Boolean = {
    val program = Path.of(sys.props("java.home"), "bin", "java").toString
    val opened = ManagementFactory.getRuntimeMXBean.getInputArguments.asScala.filter(_.startsWith("--add-opens"))
    val command =
      (program +: opened.toSeq) ++ Seq("-Xmx1g", "-XX:TieredStopAtLevel=1", "-cp", sys.props("java.class.path")) ++
        Seq(SavepointKillsSuite.getClass.getName.stripSuffix("$"), home.toString, at.toString)
    val out = home.resolve("out").toFile
    val process = new ProcessBuilder(command.asJava).redirectErrorStream(true).redirectOutput(out).start()
    assert(process.waitFor(20, TimeUnit.MINUTES), "it hangs")
    assert(Set(0, 137)(process.exitValue), s"${process.exitValue}: ${Files.readString(out.toPath)}")
    process.exitValue == 137
  }
}

object SavepointKillsSuite {
  private val First = Integer.getInteger("mullion.kills.first", 0).toInt
  private val Every = Integer.getInteger("mullion.kills.every", 1).toInt

  /** Leaves a checkpoint with open panes. */
  private def query(spark: SparkSession, home: Path, checkpoint: Path): Unit = {
    val in = Files.createDirectories(home.resolve("in"))
    for (file <- 0 to 1)
      Files.write(in.resolve(s"$file.csv"), (0 until 20).map(n => s"${30 * file + n},key ${n % 4},$n").asJava)
    spark.readStream
      .schema("t BIGINT, key STRING, id BIGINT")
      .option("maxFilesPerTrigger", 1)
      .csv(in.toString)
      .withColumn("ts", timestamp_seconds(col("t")))
      .withWatermark("ts", "40 seconds")
      .windowed(Tumbling("20 seconds"), time = "ts", by = Seq(col("key")))
      .agg(count("*").as("n"), sum("id").as("ids"))
      .writeStream
      .format("noop")
      .option("checkpointLocation", checkpoint.toString)
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()
  }

  /** A savepoint in a separate process, which dies at an operation. */
  def main(args: Array[String]): Unit = args match {
    case Array(home, at) =>
      val spark = FileFaultsSuite.session()
      FaultyFiles.on(Plan(home, Dies, at.toInt)) {
        savepoint(spark, s"$home/from", s"$home/to", Some(2))
      }
      spark.stop()
    case _ => sys.error("home at")
  }
}
