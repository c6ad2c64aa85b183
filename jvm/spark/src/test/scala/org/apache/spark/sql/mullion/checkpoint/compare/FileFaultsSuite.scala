package org.apache.spark.sql.mullion.checkpoint.compare

import java.lang.management.ManagementFactory
import java.nio.file.{Files, Path, StandardCopyOption}
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._
import scala.util.{Random, Using}

import munit.Slow

import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.TemporaryFolder
import org.apache.spark.sql.streaming.{StreamingQueryException, Trigger}
import org.apache.spark.sql.{DataFrame, SparkSession}

import dev.mullion.files.FaultyFiles
import dev.mullion.files.FaultyFiles.{Dies, Fails, Fault, Plan, Tears}
import dev.mullion.{MullionExtensions, MullionSuite, TestSeed}

/** A batch whose disk fails, or whose process dies, at any of its file operations: the query continues, and emits the
  * same rows as an undisturbed one.
  */
class FileFaultsSuite extends MullionSuite {
  import FileFaultsSuite._

  private lazy val spark = session()

  override def beforeAll(): Unit = spark.sparkContext.setLogLevel("OFF")

  override def afterAll(): Unit = spark.stop()

  private val seed = TestSeed.value

  for (format <- Formats)
    test(s"at every operation of a batch (checkpoints of format $format)".tag(Slow)) {
      TemporaryFolder.use { home =>
        val life = new Life(spark, home, format)
        for (fault <- Seq[Fault](Fails, Tears)) {
          val reached = Iterator.from(0).map(life.faulty(fault, _)).takeWhile(_.isDefined).flatten.toVector
          assert(clue(reached).length > 15)
          println(
            s"format $format: $fault at each of ${reached.length} operations of a batch, 0 lost, 0 repeated"
          )
        }
      }
    }

  test("at a few operations of a batch, of some format") {
    TemporaryFolder.use { home =>
      val random = new Random(seed)
      val life = new Life(spark, home, Formats(random.nextInt(Formats.length)))
      for (fault <- Seq[Fault](Fails, Tears); at <- Seq.fill(2)(random.nextInt(16)))
        assert(life.faulty(fault, at).isDefined, s"seed $seed")
    }
  }

  test("processes that die at an operation of a batch".tag(Slow)) {
    val random = new Random(seed)
    for (at <- Seq.fill(2)(random.nextInt(16)))
      TemporaryFolder.use { home =>
        val life = new Life(spark, home, format = 1)
        life.dies(at)
      }
  }
}

object FileFaultsSuite {
  private val Prepared = 3

  private val Formats = Seq(1, 2)

  def session(): SparkSession = SparkSession
    .builder()
    .master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.extensions", classOf[MullionExtensions].getName)
    .config("spark.hadoop.fs.file.impl", classOf[FaultyFiles].getName)
    .config("spark.hadoop.fs.AbstractFileSystem.file.impl", classOf[dev.mullion.files.FaultyFilesContext].getName)
    .getOrCreate()

  private def copied(from: Path, to: Path): Unit = Using.resource(Files.walk(from)) { files =>
    files.iterator.asScala.foreach { file =>
      val at = to.resolve(from.relativize(file))
      if (Files.isDirectory(file)) { if (!Files.exists(at)) Files.createDirectories(at) }
      else Files.copy(file, at, StandardCopyOption.COPY_ATTRIBUTES)
    }
  }

  /** A query over files, one per batch, whose checkpoint is copied before its fourth batch. */
  final class Life(spark: SparkSession, home: Path, format: Int) {
    private val in = home.resolve("in")
    private val (base, last) = (home.resolve("base"), home.resolve("last"))
    Files.createDirectories(in)
    Files.createDirectories(last)

    private def write(to: Path, number: Int): Unit = {
      val random = new Random(number.toLong)
      val rows = Seq.tabulate(20) { n =>
        s"${(10 * number + random.nextInt(40) - 25).max(0)},key ${random.nextInt(4)},${100 * number + n}"
      }
      Files.write(to.resolve(s"$number.csv"), rows.asJava)
      ()
    }

    (0 until Prepared).foreach(write(in, _))
    run(base)
    write(in, Prepared)
    (Prepared + 1 to Prepared + 2).foreach(write(last, _))
    Files.write(last.resolve("9.csv"), Seq("900000,none,0").asJava)

    private val undisturbed = {
      val copy = home.resolve("undisturbed")
      copied(base, copy)
      finish(copy)
      collected(copy)
    }

    /** Runs a fourth batch with a fault at one of its operations, and then the rest. Returns the operation, if it
      * exists.
      */
    def faulty(fault: Fault, at: Int): Option[String] = {
      val checkpoint = home.resolve(s"$fault-$at")
      copied(base, checkpoint)
      val plan = Plan(checkpoint.toString + "/state-and-logs", fault, at)
      FaultyFiles.on(plan) {
        try run(checkpoint)
        catch { case failed: StreamingQueryException => assert(namesCause(failed), s"$fault at $at: $failed") }
      }
      plan.happened.foreach(isRight(checkpoint, fault, _))
      TemporaryFolder.delete(checkpoint)
      plan.happened
    }

    /** True if an error is that of a full disk. Causes of a task's failure are in Spark's message. */
    private def namesCause(failed: Throwable): Boolean = Iterator
      .iterate(failed)(_.getCause)
      .takeWhile(_ != null)
      .exists(cause => String.valueOf(cause.getMessage).contains("No space left on device"))

    /** The same in a separate process, which dies. */
    def dies(at: Int): Unit = {
      val checkpoint = home.resolve(s"dies-$at")
      copied(base, checkpoint)
      val program = Path.of(sys.props("java.home"), "bin", "java").toString
      val opened = ManagementFactory.getRuntimeMXBean.getInputArguments.asScala
        .filter(_.startsWith("--add-opens"))
      val command =
        (program +: opened.toSeq) ++ Seq("-Xmx1g", "-XX:TieredStopAtLevel=1", "-cp", sys.props("java.class.path")) ++
          Seq(
            FileFaultsSuite.getClass.getName.stripSuffix("$"),
            home.toString,
            format.toString,
            checkpoint.toString
          ) :+
          at.toString
      val process = new ProcessBuilder(command.asJava)
        .redirectErrorStream(true)
        .redirectOutput(home.resolve("out").toFile)
        .start()
      assert(process.waitFor(5, TimeUnit.MINUTES), "it hangs")
      assert(process.exitValue == 137, s"${process.exitValue}: ${Files.readString(home.resolve("out"))}")
      isRight(checkpoint, Dies, s"operation $at")
      TemporaryFolder.delete(checkpoint)
    }

    private def isRight(checkpoint: Path, fault: Fault, what: String): Unit = {
      finish(checkpoint)
      val out = collected(checkpoint)
      val (lost, more) = (undisturbed -- out, out -- undisturbed)
      assert(lost.isEmpty && more.isEmpty, s"format $format, $fault at $what: lost $lost, not wanted $more")
    }

    private def finish(checkpoint: Path): Unit = {
      // Spark adds files that it has listed but not planned to the next batch.
      run(checkpoint)
      copied(last, in)
      try run(checkpoint)
      finally
        Using.resource(Files.list(last))(_.iterator.asScala.toVector).foreach { file =>
          Files.delete(in.resolve(file.getFileName))
        }
    }

    /** Each batch is emitted under its number; a repeated one is equal. */
    private def collected(checkpoint: Path): Set[String] =
      Using.resource(Files.list(checkpoint)) { files =>
        val lines = files.iterator.asScala.filter(_.getFileName.toString.startsWith("out-")).toVector.flatMap { file =>
          Files.readAllLines(file).asScala
        }
        // A pane's firings are numbered, so no two rows are equal.
        assert(lines.distinct.length == lines.length, s"repeated: ${lines.diff(lines.distinct)}")
        lines.toSet
      }

    private def run(checkpoint: Path): Unit = FileFaultsSuite.run(spark, checkpoint, in, format)
  }

  private def run(spark: SparkSession, checkpoint: Path, from: Path, format: Int): Unit = {
    import dev.mullion._

    spark.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", format.toString)
    val rows = spark.readStream
      .schema("t BIGINT, key STRING, id BIGINT")
      .option("maxFilesPerTrigger", 1)
      .csv(from.toString)
      .withColumn("ts", timestamp_seconds(col("t")))
      .withWatermark("ts", "5 seconds")
    val panes: DataFrame = rows
      .windowed(
        Sliding("20 seconds", "10 seconds"),
        time = "ts",
        by = Seq(col("key")),
        early = Early.count(3),
        late = Late.Emit
      )
      .agg(count("*").as("n"), sum("id").as("ids"))
    Files.createDirectories(checkpoint)
    val query = panes.writeStream
      .foreachBatch { (batch: DataFrame, number: Long) =>
        val lines = batch.collect().map(_.toString).sorted.toSeq
        val file = checkpoint.resolve(s"out-$number")
        if (Files.exists(file)) assert(Files.readAllLines(file).asScala.toSeq == lines, s"batch $number has changed")
        Files.write(file, lines.asJava)
        ()
      }
      .option("checkpointLocation", checkpoint.resolve("state-and-logs").toString)
      .trigger(Trigger.AvailableNow())
      .start()
    query.awaitTermination()
  }

  /** A batch in a separate process, which dies at an operation. */
  def main(args: Array[String]): Unit = args match {
    case Array(home, format, checkpoint, at) =>
      val spark = session()
      FaultyFiles.on(Plan(s"$checkpoint/state-and-logs", Dies, at.toInt)) {
        run(spark, Path.of(checkpoint), Path.of(home, "in"), format.toInt)
      }
    case _ => sys.error("home format checkpoint at")
  }
}
