package org.apache.spark.sql.mullion

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths, StandardCopyOption}
import java.util.zip.CRC32

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{JsonNodeFactory, ObjectNode}
import munit.{Slow, TestOptions}

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.functions._
import org.apache.spark.sql.mullion.checkpoint.evolve.RecordsInState
import org.apache.spark.sql.mullion.query.ClockedQuery

import dev.mullion.{Facade, MullionExtensions}

/** Runs the test cases of `tests/transcripts/joins` through the Scala API. `test_join_transcripts.py` runs the same
  * files in Python.
  */
class JoinTranscriptSuite extends SparkSuite {
  import JoinTranscriptSuite._

  override protected def settings: Seq[(String, String)] =
    Seq("spark.sql.extensions" -> classOf[MullionExtensions].getName)

  for {
    scenario <- JoinScenario.all(Paths.get("tests/transcripts/joins"))
    cache <- CacheSize.chosen(scenario.name)
  } {
    val name: TestOptions = s"${scenario.name} (${cache.name})"
    test(if (isSlow(scenario)) name.tag(Slow) else name) {
      val session = cache.session(spark)
      session.withActive(TemporaryFolder.use { folder =>
        val run = new JoinRun(session, scenario, folder)
        try play(run, scenario)
        finally run.stop()
      })
    }
  }

  private def play(run: JoinRun, scenario: JoinScenario): Unit = {
    val emitted = mutable.ArrayBuffer.empty[String]
    scenario.steps.zipWithIndex.foreach { case (step, i) =>
      val ran = run.step(step)
      val at = s"step ${i + 1}"
      assertEquals(ran.rows.sorted, step.rows.sorted, at)
      assertEquals(ran.late, step.late, s"$at: the metric rowsLate")
      assertEquals(ran.withoutTime, step.withoutTime, s"$at: the metric rowsWithoutTime")
      if (!step.crash) emitted ++= ran.rows
    }
    val batch = Option.when(scenario.steps.forall(_.late == 0))(run.asBatch())
    val flood = Some(Seq(JoinScenario.ofTime(Far)))
    val last = run.step(JoinStep(Seq(flood, flood), restart = false, crash = false, Nil, 0, 0))
    assertEquals(last.rows.sorted, scenario.end.sorted, "at the end")
    assertEquals(last.records, scenario.records, "records in state")
    batch.foreach(rows => assertEquals(rows.sorted, (emitted ++ last.rows).sorted.toSeq, "the same as a batch"))
  }
}

object JoinTranscriptSuite {
  private final val Far = 4000000000L * 1000000L

  /** True for the quarter of the test cases that `make test` runs in Python. */
  private def isSlow(scenario: JoinScenario): Boolean = !sys.env.get("MULLION_SCENARIOS").contains("all") && {
    val hash = new CRC32
    hash.update(scenario.name.getBytes(UTF_8))
    hash.getValue % 4 == 0
  }

  /** The result of a step. */
  private final case class Ran(rows: Seq[String], late: Long, withoutTime: Long, records: Long)

  /** The query of one test case. */
  private final class JoinRun(spark: SparkSession, scenario: JoinScenario, folder: Path) {
    private val folders = JoinScenario.sides.map(side => Files.createDirectories(folder.resolve(side)))
    private val checkpoint = folder.resolve("checkpoint")
    private var files = 0
    private var query = start()
    private var reported = -1L

    private def start(): ClockedQuery = {
      val sides = folders.zip(scenario.delays).map { case (rows, delay) =>
        val timed = read(spark.readStream.schema(schema).json(rows.toString))
        // The condition is on the event time, so the watermark includes its rows.
        timed.withWatermark("ts", s"$delay microseconds").where(s"ts IS NULL OR unix_micros(ts) != $Far")
      }
      Facade.startClocked(scenario.join(sides.head, sides.last), checkpoint.toString, "append", 0L, drain = false)
    }

    def stop(): Unit = query.stop()

    def step(step: JoinStep): Ran = {
      val starts = step.restart || step.crash
      if (starts) query.stop()
      if (step.crash) forgetLastCommit()
      folders.zip(step.sides).foreach { case (rows, of) => of.foreach(write(rows, _)) }
      if (starts) {
        query = start()
        reported = -1L
      }
      val before = if (starts) -1L else query.lastBatch
      query.settle()
      val rows = query.since(before).collect().map(JoinScenario.text).toSeq
      val reports = query.query.recentProgress.toSeq
        .filter(report => report.durationMs.containsKey("addBatch") && report.batchId > reported)
      reported = reports.lastOption.fold(reported)(_.batchId)
      val operators = reports.map(_.stateOperators.head)
      def sum(metric: String) = operators.map(_.customMetrics.get(metric).longValue).sum
      Ran(rows, sum("rowsLate"), sum("rowsWithoutTime"), operators.lastOption.fold(0L)(_.numRowsTotal))
    }

    /** The join of batch DataFrames with the rows so far. */
    def asBatch(): Seq[String] = {
      val sides = folders.map { rows =>
        val listed = Files.list(rows)
        val files =
          try listed.iterator.asScala.map(_.toString).filter(_.endsWith(".json")).toVector.sorted
          finally listed.close()
        // One by one: of several files Spark reads the longest first.
        files.map(file => read(spark.read.schema(schema).json(file))).reduce(_ union _)
      }
      scenario.join(sides.head, sides.last).collect().map(JoinScenario.text).toSeq
    }

    private def read(rows: DataFrame): DataFrame = rows.withColumn("ts", timestamp_micros(col("ts")))

    private def write(folder: Path, rows: Seq[JsonNode]): Unit = {
      val lines = rows.map { row =>
        val line = new ObjectNode(JsonNodeFactory.instance)
        if (!row.get(0).isNull) line.put("ts", Said.micros(row.get(0)))
        line.set[JsonNode]("k", row.get(1))
        line.set[JsonNode]("v", row.get(2))
        line.toString
      }
      val hidden = folder.resolve("_next")
      Files.write(hidden, lines.asJava)
      Files.move(hidden, folder.resolve(f"$files%04d.json"), StandardCopyOption.ATOMIC_MOVE)
      files += 1
    }

    /** Simulates a death after the last batch wrote its state and its output, but before its commit. */
    private def forgetLastCommit(): Unit = {
      val commits = checkpoint.resolve("commits")
      val last = RecordsInState.numbersIn(commits).last
      Seq(s"$last", s".$last.crc").foreach(name => Files.deleteIfExists(commits.resolve(name)))
    }
  }

  private val schema = "ts bigint, k string, v int"
}
