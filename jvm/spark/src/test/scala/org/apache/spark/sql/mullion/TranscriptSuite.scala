package org.apache.spark.sql.mullion

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Path, Paths}
import java.util.concurrent.Executors
import java.util.zip.CRC32

import scala.collection.concurrent.TrieMap
import scala.collection.mutable
import scala.concurrent.{ExecutionContext, Future}

import com.fasterxml.jackson.databind.node.JsonNodeFactory
import munit.{Slow, TestOptions}

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager

import dev.mullion.{MullionException, MullionExtensions}

/** Runs the test cases of `tests/transcripts` through the facade. `test_transcripts.py` runs the same files in Python.
  *
  * A test case runs small queries one after another, and mostly waits. A few test cases therefore run in parallel, in
  * one session: each request starts the next ones.
  */
class TranscriptSuite extends SparkSuite {
  import TranscriptSuite._

  override protected def cores: Int = 3

  override protected def settings: Seq[(String, String)] = Seq(
    "spark.sql.extensions" -> classOf[MullionExtensions].getName,
    // A file of a few rows is read by several tasks.
    "spark.sql.files.maxPartitionBytes" -> "64",
    // Hundreds of small queries: compilation dominates their time.
    "spark.sql.codegen.cache.maxEntries" -> "5000",
    // Code that does not compile is a failure, not a reason to fall back silently.
    "spark.sql.codegen.fallback" -> "false",
    "spark.sql.streaming.checkpointFileManagerClass" -> classOf[FileSystemBasedCheckpointFileManager].getName,
    // The Python suite makes RocksDB write snapshots.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled" -> "true"
  )

  private val threads = Executors.newFixedThreadPool(
    AtOnce,
    { (work: Runnable) =>
      val thread = new Thread(work, "scenario")
      thread.setDaemon(true)
      thread
    }
  )
  private val pool = ExecutionContext.fromExecutorService(threads)

  override def afterAll(): Unit = {
    threads.shutdown()
    super.afterAll()
  }

  // Those of `make test` come first.
  private val scenarios = Scenario
    .all(Paths.get("tests/transcripts"))
    .flatMap(scenario => CacheSize.chosen(scenario.name).map(scenario -> _))
    .sortBy { case (scenario, _) => isSlow(scenario) }
  private lazy val sessions = CacheSize.all.map(size => size -> size.session(spark)).toMap
  private val begun = TrieMap.empty[Int, Future[Unit]]

  for (((scenario, cache), number) <- scenarios.zipWithIndex) {
    val name: TestOptions = s"${scenario.name} (${cache.name})"
    test(if (isSlow(scenario)) name.tag(Slow) else name) {
      val next = number until Math.min(number + AtOnce, scenarios.length)
      next.takeWhile(n => isSlow(scenarios(n)._1) == isSlow(scenario)).map(begin).head
    }
  }

  private def begin(number: Int): Future[Unit] = begun.getOrElseUpdate(
    number, {
      val (scenario, cache) = scenarios(number)
      val session = sessions(cache)
      Future(session.withActive(tell(session, scenario)))(pool)
    }
  )

  private def tell(session: SparkSession, scenario: Scenario): Unit = TemporaryFolder.use { folder =>
    scenario.refused match {
      case Some(why) =>
        val refusal = intercept[MullionException](new ScenarioRun(session, scenario, folder).begin())
        assert(clue(refusal.getMessage).contains(why))
      case None => running(session, scenario, folder)(play(session, scenario.steps, _))
    }
  }

  private def play(session: SparkSession, steps: Seq[Step], run: ScenarioRun): Unit = {
    val fired = mutable.ArrayBuffer.empty[Firing]
    steps.zipWithIndex.foreach { case (step, i) =>
      val ran = run.run(step)
      val scenario = run.scenario
      val at = s"step ${i + 1}"
      step.batches match {
        case None          => same(ran.fired, step.fires, scenario.last, at)
        case Some(batches) =>
          ran.batches.zip(batches).zipWithIndex.foreach { case ((ofBatch, expected), batch) =>
            same(ofBatch, expected, scenario.last, s"$at, batch $batch")
          }
          assertEquals(ran.batches.size, batches.size, s"$at: batches that ran")
      }
      checkCounts(scenario, step, ran, at)
      step.open.foreach(assertEquals(run.panesOpen, _, s"$at: panes open"))
      if (!step.crash) fired ++= ran.fired
    }

    val scenario = run.scenario
    val open = run.openPanes()
    same(open.last, scenario.open, scenario.panes, "open at the end")
    assertEquals(run.panesOpen, scenario.open.size.toLong, "the metric of open panes")
    open.init.foreach(
      same(_, scenario.next.fold(Seq.empty[Firing])(_.open), scenario.last, "open downstream at the end")
    )

    scenario.records.foreach(assertEquals(run.recordsInState().last.values.sum.toLong, _, "records in state"))

    val files = run.filesWritten
    val last =
      if (!scenario.flood) Nil
      else if (scenario.panes.onProcessingTime) outwait(scenario, run, fired.toSeq)
      else drown(session, scenario, run, fired.toSeq)
    // A batch contains rows that a firing has cleared; on processing time its rows have one time; and it ends at
    // another time than a clock that closes windows without rows. A batch also has neither a second run after the end
    // of the input, nor an earlier query.
    val alike =
      scenario.panes.accumulate && scenario.panes.forgetAfter.isEmpty && !scenario.panes.onProcessingTime && !scenario.panes.empty &&
        !steps.init.exists(_.drain) && !steps.exists(_.change.isDefined)
    if (steps.forall(step => step.late == 0 && step.ahead == 0) && alike) {
      val closes =
        (fired ++ last).filter(_.is("close")) ++ (if (scenario.flood || scenario.panes.isNumbered) Nil
                                                  else scenario.open)
      val closed = closes.map(_.as("close", 0).withoutId).toSeq
      same(run.asBatch(files).map(_.withoutId), scenario.batch.getOrElse(closed), scenario.last, "the same as a batch")
    }
  }

  private def checkCounts(scenario: Scenario, step: Step, ran: Ran, at: String): Unit = {
    def sum(counts: Seq[Map[String, Long]], name: String) = counts.map(_(name)).sum

    val of = Seq(
      "rowsLate" -> step.late,
      "rowsAhead" -> step.ahead,
      "rowsWithoutTime" -> step.withoutTime,
      "rowsInNoWindow" -> step.inNoWindow
    )
    of.foreach { case (name, expected) => assertEquals(sum(ran.counts, name), expected, s"$at: the metric $name") }
    scenario.next match {
      case Some(next) if next.ours =>
        of.foreach { case (name, _) =>
          assertEquals(sum(ran.lastCounts, name), 0L, s"$at: the metric $name downstream")
        }
      case _ =>
    }
    if (scenario.next.forall(_.ours)) {
      val running = Option.when(scenario.panes.running)("running" -> "firingsRunning")
      (ScenarioRun.firings ++ running).foreach { case (kind, metric) =>
        assertEquals(sum(ran.lastCounts, metric), ran.fired.count(_.is(kind)).toLong, s"$at: the metric $metric")
      }
    }
  }

  /** Time passes, and all panes close; then state must be empty. */
  private def outwait(scenario: Scenario, run: ScenarioRun, fired: Seq[Firing]): Seq[Firing] = {
    val closed = run.run(TranscriptSuite.waiting(far)).fired
    same(closed, expectedAtEnd(scenario, fired), scenario.last, "when all closes")
    assertEquals(run.openPanes().flatten, Nil)
    assertEquals(run.panesOpen, 0L)
    assertEquals(run.recordsInState().map(_.removed("totals").filter(_._2 > 0)).filter(_.nonEmpty), Nil)
    closed
  }

  private def expectedAtEnd(scenario: Scenario, fired: Seq[Firing]): Seq[Firing] = scenario.end.getOrElse {
    assert(scenario.next.isEmpty, "a scenario of two windows needs `end`")
    scenario.open.map(pane => pane.as("close", timesFired(pane, fired, scenario.panes.keys)))
  }

  /** A row far in the future closes all panes; then state only has that row's records. */
  private def drown(session: SparkSession, scenario: Scenario, run: ScenarioRun, fired: Seq[Firing]): Seq[Firing] = {
    val at = scenario.panes.lastStart(far)
    val ran = run.run(flood(at, scenario))
    val (mine, others) = ran.fired.partition(_.end.exists(_ > at))
    assert(mine.forall(f => f.is("early") || f.is("running")), mine.mkString(", "))
    same(others, expectedAtEnd(scenario, fired), scenario.last, "when all closes")

    val open = run.openPanes()
    val windows = scenario.windowsAtStart
    assertEquals(open.last.size.toLong, windows, s"panes left besides those of the last row: ${open.last}")
    assert(open.last.forall(_.end.exists(_ > at)))
    assertEquals(run.panesOpen, windows)
    assert(open.init.forall(_.isEmpty), s"panes left downstream: ${open.init}")
    val records = run.recordsInState()
    assertEquals(records.last, ofOneRow(session, scenario), "records in state")
    assert(records.init.forall(_.isEmpty), s"records left downstream: ${records.init}")
    others
  }

  private val recordsOfOneRow = TrieMap.empty[(PaneScenario, Seq[PaneScenario]), Map[String, Int]]

  /** The records of a state after a row far in the future, which closes the panes of an earlier row. The earlier row
    * gives the clock its first reading, so that the other pane fires early, as at the end of a scenario.
    */
  private def ofOneRow(session: SparkSession, of: Scenario): Map[String, Int] = {
    val scenario = Scenario.ofOneRow(of)
    recordsOfOneRow.getOrElseUpdate(
      (scenario.panes, scenario.together.map(_._2)),
      TemporaryFolder.use { folder =>
        running(session, scenario, folder) { run =>
          Seq(far / 2, far).foreach(at => run.run(flood(scenario.panes.lastStart(at), scenario)))
          run.recordsInState().last
        }
      }
    )
  }

  private def running[T](session: SparkSession, scenario: Scenario, folder: Path)(use: ScenarioRun => T): T = {
    val run = new ScenarioRun(session, scenario, folder)
    try use(run)
    finally run.stop()
  }

  /** Compares firings in any order, but those of one pane in theirs. */
  private def same(fired: Seq[Firing], expected: Seq[Firing], panes: PaneScenario, at: String): Unit = {
    def byPane(firings: Seq[Firing]) = firings.groupBy(_.pane(panes.keys)).map { case (pane, of) =>
      pane -> (if (pane.contains("window")) of else of.sortBy(_.toString))
    }
    if (byPane(fired) != byPane(expected)) {
      val missing = expected.diff(fired).map(f => s"  missing: $f")
      val instead = fired.diff(expected).map(f => s"  instead: $f")
      val order = if (missing.isEmpty && instead.isEmpty) Seq("  the firings of a pane in another order") else Nil
      fail((s"$at:" +: (missing ++ instead ++ order)).mkString("\n"))
    }
  }
}

object TranscriptSuite {

  /** True for a fixed quarter of the test cases: `make test` runs these in Python. With `MULLION_SCENARIOS=all` it runs
    * all of them here.
    */
  private def isSlow(scenario: Scenario): Boolean = !sys.env.get("MULLION_SCENARIOS").contains("all") && {
    val hash = new CRC32
    hash.update(scenario.name.getBytes(UTF_8))
    hash.getValue % 4 == 0
  }

  /** The number of test cases that run in parallel. */
  private val AtOnce = 3

  /** No test case without `flood: false` comes near this time. */
  private val far = 1000000000L * 1000000L

  private def flood(at: Long, scenario: Scenario): Step = {
    val json = JsonNodeFactory.instance
    val row = json.arrayNode().add(json.numberNode(java.math.BigDecimal.valueOf(at, 6)))
    org.apache.spark.sql.types.StructType.fromDDL(scenario.schema).tail.foreach(_ => row.addNull())
    val other = Option.when(scenario.streams > 1)(Seq(row))
    Step(Some(Seq(row)), advance = 0, restart = false, crash = false, Nil, None, 0, 0, 0, None, other = other)
  }

  private def waiting(us: Long): Step =
    Step(None, advance = us, restart = false, crash = false, Nil, None, 0, 0, 0, None)

  /** The number of firings of an open pane: the index of its close. */
  private def timesFired(pane: Firing, fired: Seq[Firing], keys: Seq[String]): Int = {
    val here = fired.filter(_.pane(keys) == pane.pane(keys))
    here.size - (here.lastIndexWhere(_.is("close")) + 1)
  }

}
