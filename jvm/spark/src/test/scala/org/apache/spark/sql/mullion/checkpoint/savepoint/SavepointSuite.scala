package org.apache.spark.sql.mullion.checkpoint.savepoint

import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.{Random, Using}

import munit.{Slow, TestOptions}

import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.checkpoint.compare.{FilesOfRows, WhereSavepointsAreWritten}
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolders}
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException, Trigger}
import org.apache.spark.sql.{Column, DataFrame}

import dev.mullion.files.{FaultyFiles, FaultyFilesContext}
import dev.mullion.{TestSeed, _}

/** Savepoints: queries that continue from them behave as if they had never stopped. */
class SavepointSuite extends SparkSuite with TemporaryFolders with WhereSavepointsAreWritten {
  import SavepointSuite._

  override protected def cores: Int = 2

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.hadoop.fs.file.impl" -> classOf[FaultyFiles].getName,
    "spark.hadoop.fs.AbstractFileSystem.file.impl" -> classOf[FaultyFilesContext].getName
  )

  private val seed = TestSeed.value

  // Tumbling windows and one of the others, a different one each time.
  private val chosen = Set(0, 1 + new Random(seed).nextInt(queries.length - 1))

  for (((name, panes), number) <- queries.zipWithIndex) {
    val options: TestOptions = s"state goes from 2 partitions to 7 and to 3: $name"
    folder.test(if (chosen(number)) options else options.tag(Slow)) { home =>
      rescaled(new Life(home, panes), Seq(2, 7, 3))
    }
  }

  for ((name, panes) <- queries)
    folder.test(s"state goes from 2 partitions to 200 and to 3: $name".tag(Slow)) { home =>
      rescaled(new Life(home, panes), Seq(2, 200, 3))
    }

  private def rescaled(life: Life, partitions: Seq[Int]): Unit = {
    var at = life.home.resolve("0")
    life.run(at)
    for (i <- 1 to 2) {
      val next = life.home.resolve(i.toString)
      val open = life.open(at)
      assert(open.nonEmpty)
      savepoint(spark, at.toString, next.toString, Some(partitions(i)))
      assertEquals(life.open(next), open, s"seed $seed")
      at = next
      life.run(at)
    }
    life.finish(at)
    assertEquals(life.closed.toSeq.sorted, life.inBatch, s"seed $seed")
  }

  // One of them each time, the others in the slow test.
  private val formats = new Random(seed).shuffle(Seq(1 -> 2, 2 -> 1, 2 -> 2))
  for (((was, is), number) <- formats.zipWithIndex) {
    val named: TestOptions = s"a checkpoint of format $was becomes one of format $is"
    folder.test(if (number == 0) named else named.tag(Slow)) { home =>
      val life = new Life(home, queries(1)._2)
      val (before, after) = (home.resolve("before"), home.resolve("after"))
      spark.conf.set(format, was.toString)
      try {
        life.run(before)
        Facade.savepoint(spark, before.toString, after.toString, 3, is, None.orNull, None.orNull)
        spark.conf.set(format, is.toString)
        life.run(after)
        life.finish(after)
      } finally spark.conf.unset(format)
      assertEquals(life.closed.toSeq.sorted, life.inBatch)
    }
  }

  folder.test("a running query is not disturbed, and another continues from its savepoint") { home =>
    val life = new Life(home, queries.head._2)
    val (own, copy) = (home.resolve("own"), home.resolve("copy"))
    val query = life.start(own, Trigger.ProcessingTime(0L))
    try {
      life.write()
      query.processAllAvailable()
      val last = savepoint(spark, own.toString, copy.toString, Some(3))
      assert(last >= 0)
      life.write()
      query.processAllAvailable()
    } finally query.stop()
    life.finish(own)
    val expected = life.closed.toSeq.sorted
    life.closed.clear()
    life.run(copy, writes = false)
    // Panes closed before the savepoint were emitted by the other query.
    assertEquals(expected, life.inBatch)
    assert(life.closed.nonEmpty && life.closed.forall(expected.contains))
    assert(life.closed.length == life.closed.distinct.length)
  }

  folder.test("an error at any file operation leaves nothing, or a complete savepoint") { home =>
    val life = new Life(home, queries.head._2)
    val from = home.resolve("from")
    life.run(from)
    val open = life.open(from)
    // The first ones, the last ones, and some in between; all of them in the slow test.
    val operations = {
      val plan = FaultyFiles.Plan(home.toString, FaultyFiles.Fails, Int.MaxValue)
      FaultyFiles.on(plan)(savepoint(spark, from.toString, home.resolve("whole").toString, Some(3)))
      plan.operations
    }
    assert(clue(operations) > 15)
    val random = new Random(seed)
    for (at <- (Seq(0, 1, operations - 1, operations - 2) ++ Seq.fill(4)(random.nextInt(operations))).distinct)
      failsAt(life, from, open, at)
  }

  folder.test("an error at each file operation leaves nothing, or a complete savepoint".tag(Slow)) { home =>
    val life = new Life(home, queries.head._2)
    val from = home.resolve("from")
    life.run(from)
    val open = life.open(from)
    val reached = Iterator.from(0).map(failsAt(life, from, open, _)).takeWhile(identity).size
    assert(clue(reached) > 15)
  }

  /** True if that operation exists. */
  private def failsAt(life: Life, from: Path, open: Seq[String], at: Int): Boolean = {
    val to = life.home.resolve(s"to-$at")
    val plan = FaultyFiles.Plan(life.home.toString, FaultyFiles.Fails, at)
    val failed = FaultyFiles.on(plan) {
      try {
        savepoint(spark, from.toString, to.toString, Some(3))
        false
      } catch { case _: Exception => true }
    }
    assert(failed != Files.exists(to), s"operation $at: ${plan.happened}")
    val beside = Using.resource(Files.list(life.home))(_.iterator.asScala.map(_.getFileName.toString).toVector)
    // Except where it could not be deleted.
    assert(
      !beside.exists(_.startsWith(s".${to.getFileName}.savepoint-")) || plan.happened.exists(_.startsWith("delete")),
      s"operation $at: ${plan.happened}"
    )
    if (!failed) assertEquals(life.open(to), open, s"operation $at: ${plan.happened}")
    plan.happened.isDefined
  }

  folder.test("a changed savepoint is rejected before a batch") { home =>
    val life = new Life(home, queries.head._2)
    val (from, to) = (home.resolve("from"), home.resolve("to"))
    life.run(from)
    savepoint(spark, from.toString, to.toString, Some(1))
    val zip = Using.resource(Files.walk(to.resolve("state/0/0")))(
      _.iterator.asScala.find(file => file.toString.endsWith(".zip")).get
    )
    val bytes = Files.readAllBytes(zip)
    def refused(): String = {
      val e = intercept[StreamingQueryException](life.run(to))
      e.getMessage
    }
    Files.deleteIfExists(zip.resolveSibling(s".${zip.getFileName}.crc"))
    Files.write(zip, bytes.dropRight(1))
    assert(clue(refused()).contains(s"${zip.getFileName} has ${bytes.length - 1} bytes, and was written with"))
    Files.write(zip, bytes.updated(bytes.length / 2, (bytes(bytes.length / 2) ^ 1).toByte))
    assert(clue(refused()).contains(s"${zip.getFileName} has other bytes than were written"))
    Files.delete(zip)
    assert(clue(refused()).contains(s"${zip.getFileName} is missing"))
    Files.write(zip, bytes)
    life.run(to)
    life.finish(to)
    assertEquals(life.closed.toSeq.sorted, life.inBatch)
  }

  folder.test("leftovers of a killed savepoint are removed by the next one") { home =>
    val life = new Life(home, queries.head._2)
    val (from, to) = (home.resolve("from"), home.resolve("to"))
    life.run(from)
    def leftover(name: String, says: Option[String]): Path = {
      val folder = Files.createDirectories(home.resolve(s".to.savepoint-$name"))
      says.foreach(Files.writeString(folder.resolve(".writing"), _))
      Files.writeString(folder.resolve("metadata"), "{}")
    }
    val machine = java.net.InetAddress.getLocalHost.getHostName
    val process = new ProcessBuilder("true").start()
    process.waitFor()
    def started(of: ProcessHandle) = of.info.startInstant.get.toEpochMilli
    val (here, now) = (ProcessHandle.current(), System.currentTimeMillis())
    val dead = leftover("dead", Some(s"$machine ${process.pid} $now"))
    val reused = leftover("reused", Some(s"$machine ${here.pid} ${started(here) - 3600000}"))
    val alive = leftover("alive", Some(s"$machine ${here.pid} ${started(here)}"))
    val elsewhere = leftover("elsewhere", Some(s"another-$machine 1 $now"))
    val unknown = leftover("unknown", None)
    val old = leftover("old", None)
    for (path <- Seq(old, old.getParent))
      Files.setLastModifiedTime(path, java.nio.file.attribute.FileTime.fromMillis(now - 2L * 24 * 60 * 60 * 1000))
    savepoint(spark, from.toString, to.toString)
    assertEquals(
      Seq(dead, reused, alive, elsewhere, unknown, old).map(Files.exists(_)),
      Seq(false, false, true, true, true, false)
    )
    assertEquals(life.open(to), life.open(from))
    assert(!Files.exists(to.resolve(".writing")))
  }

  folder.test("a state without savepoint support is named, and nothing is written") { home =>
    val life = new Life(home, queries.head._2)
    val (from, to) = (home.resolve("from"), home.resolve("to"))
    def refused(what: String)(write: => Any): Unit = {
      val e = intercept[MullionException](write)
      assert(clue(e.getMessage).contains(what))
      assert(!Files.exists(to))
    }
    refused("There is no state in")(savepoint(spark, from.toString, to.toString))
    life.run(from)
    refused("exists and is not an empty folder")(savepoint(spark, from.toString, life.home.toString))
    val header = from.resolve("state/0/_mullion/header.json")
    val text = Files.readString(header)
    Files.delete(header.resolveSibling(".header.json.crc"))
    Files.writeString(header, text.replace("\"format\" : 1", "\"format\" : 99"))
    refused("was [99] and is now [1]")(savepoint(spark, from.toString, to.toString))
    Files.delete(header)
    refused("is Spark's own")(savepoint(spark, from.toString, to.toString))
  }

  /** A query over files, in several checkpoints. */
  private final class Life(val home: Path, panes: DataFrame => DataFrame) {
    val closed: mutable.Buffer[String] = mutable.Buffer.empty

    private val in = new FilesOfRows(home, seed, keys = 20)

    def write(): Unit = in.write()

    def run(checkpoint: Path, writes: Boolean = true): Unit = {
      if (writes) { write(); write() }
      start(checkpoint, Trigger.AvailableNow).awaitTermination()
    }

    /** Closes all panes except that of one row. */
    def finish(checkpoint: Path): Unit = {
      run(checkpoint)
      in.put(Seq("1000000,none,0,0"))
      val query = start(checkpoint, Trigger.AvailableNow)
      query.awaitTermination()
      val open = query.recentProgress.last.stateOperators.head.customMetrics.get("panesOpen").longValue
      assertEquals(open, this.open(checkpoint).length.toLong)
    }

    def start(checkpoint: Path, trigger: Trigger): StreamingQuery = {
      val rows = spark.readStream.schema(FilesOfRows.Schema).csv(in.folder.toString)
      panes(timed(rows).withWatermark("ts", "40 seconds")).writeStream
        .option("checkpointLocation", checkpoint.toString)
        .trigger(trigger)
        .foreachBatch { (batch: DataFrame, _: Long) =>
          closed ++= texts(batch.where("pane.firing = 'close'"))
          ()
        }
        .start()
    }

    def inBatch: Seq[String] =
      texts(
        panes(timed(spark.read.schema(FilesOfRows.Schema).csv(in.folder.toString)))
          .where("window.start < '1970-01-11'")
      )

    def open(checkpoint: Path): Seq[String] = texts(readPanes(spark, checkpoint.toString))

    private def timed(rows: DataFrame) = rows.withColumn("ts", timestamp_seconds(col("t")))

    private def texts(panes: DataFrame): Seq[String] =
      panes.drop("pane").toJSON.collect().toSeq.sorted
  }

  private def format = "spark.sql.streaming.stateStore.checkpointFormatVersion"
}

object SavepointSuite {
  private val keys = Seq(col("k"), col("j"))

  private val aggregates: Seq[Column] =
    Seq(count(lit(1)).as("n"), sum("v").as("total"), sort_array(collect_list("v")).as("all"))

  private def of(window: Window, by: Seq[Column] = keys, early: Early = Early.never)(
      rows: DataFrame
  ): DataFrame =
    rows.windowed(window, time = "ts", by = by, early = early).agg(aggregates.head, aggregates.tail: _*)

  private def togetherOf(rows: DataFrame): DataFrame = together(
    "each" -> of(Tumbling("30 seconds"))(rows),
    "visits" -> of(Session("20 seconds"), Seq(col("k")))(rows)
  )

  private val queries: Seq[(String, DataFrame => DataFrame)] = Seq(
    "tumbling" -> (of(Tumbling("30 seconds"), early = Early.count(3))(_)),
    "sliding" -> (of(Sliding("60 seconds", "20 seconds"))(_)),
    "sessions" -> (of(Session("15 seconds"))(_)),
    "around" -> (of(Around("20 seconds", "10 seconds"))(_)),
    "without a key" -> (of(Tumbling("30 seconds"), Nil)(_)),
    "several windows together" -> (togetherOf(_))
  )
}
