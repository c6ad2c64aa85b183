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
      val thread = new Thread(work, "story")
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
  private val stories = Story
    .all(Paths.get("tests/transcripts"))
    .flatMap(story => CacheSize.chosen(story.name).map(story -> _))
    .sortBy { case (story, _) => isSlow(story) }
  private lazy val sessions = CacheSize.all.map(size => size -> size.session(spark)).toMap
  private val begun = TrieMap.empty[Int, Future[Unit]]

  for (((story, cache), number) <- stories.zipWithIndex) {
    val name: TestOptions = s"${story.name} (${cache.name})"
    test(if (isSlow(story)) name.tag(Slow) else name) {
      val next = number until Math.min(number + AtOnce, stories.length)
      next.takeWhile(n => isSlow(stories(n)._1) == isSlow(story)).map(begin).head
    }
  }

  private def begin(number: Int): Future[Unit] = begun.getOrElseUpdate(
    number, {
      val (story, cache) = stories(number)
      val session = sessions(cache)
      Future(session.withActive(tell(session, story)))(pool)
    }
  )

  private def tell(session: SparkSession, story: Story): Unit = TemporaryFolder.use { folder =>
    story.refused match {
      case Some(why) =>
        val refusal = intercept[MullionException](new StoryRun(session, story, folder).begin())
        assert(clue(refusal.getMessage).contains(why))
      case None => running(session, story, folder)(play(session, story.steps, _))
    }
  }

  private def play(session: SparkSession, steps: Seq[Step], run: StoryRun): Unit = {
    val fired = mutable.ArrayBuffer.empty[Firing]
    steps.zipWithIndex.foreach { case (step, i) =>
      val ran = run.run(step)
      val story = run.story
      val at = s"step ${i + 1}"
      step.batches match {
        case None          => same(ran.fired, step.fires, story.last, at)
        case Some(batches) =>
          ran.batches.zip(batches).zipWithIndex.foreach { case ((told, expected), batch) =>
            same(told, expected, story.last, s"$at, batch $batch")
          }
          assertEquals(ran.batches.size, batches.size, s"$at: batches that ran")
      }
      checkCounts(story, step, ran, at)
      step.open.foreach(assertEquals(run.panesOpen, _, s"$at: panes open"))
      if (!step.crash) fired ++= ran.fired
    }

    val story = run.story
    val open = run.openPanes()
    same(open.last, story.open, story.panes, "open at the end")
    assertEquals(run.panesOpen, story.open.size.toLong, "the metric of open panes")
    open.init.foreach(same(_, story.next.fold(Seq.empty[Firing])(_.open), story.last, "open downstream at the end"))

    story.records.foreach(assertEquals(run.recordsInState().last.values.sum.toLong, _, "records in state"))

    val files = run.filesWritten
    val last =
      if (!story.flood) Nil
      else if (story.panes.onProcessingTime) outwait(story, run, fired.toSeq)
      else drown(session, story, run, fired.toSeq)
    // A batch contains rows that a firing has cleared; on processing time its rows have one time; and it ends at
    // another time than a clock that closes windows without rows. A batch also has neither a second run after the end
    // of the input, nor an earlier query.
    val alike =
      story.panes.accumulate && story.panes.forgetAfter.isEmpty && !story.panes.onProcessingTime && !story.panes.empty &&
        !steps.init.exists(_.drain) && !steps.exists(_.change.isDefined)
    if (steps.forall(step => step.late == 0 && step.ahead == 0) && alike) {
      val closes =
        (fired ++ last).filter(_.is("close")) ++ (if (story.flood || story.panes.isNumbered) Nil else story.open)
      val closed = closes.map(_.as("close", 0).withoutId).toSeq
      same(run.asBatch(files).map(_.withoutId), story.batch.getOrElse(closed), story.last, "the same as a batch")
    }
  }

  private def checkCounts(story: Story, step: Step, ran: Ran, at: String): Unit = {
    def sum(counts: Seq[Map[String, Long]], name: String) = counts.map(_(name)).sum

    val of = Seq(
      "rowsLate" -> step.late,
      "rowsAhead" -> step.ahead,
      "rowsWithoutTime" -> step.withoutTime,
      "rowsInNoWindow" -> step.inNoWindow
    )
    of.foreach { case (name, expected) => assertEquals(sum(ran.counts, name), expected, s"$at: the metric $name") }
    story.next match {
      case Some(next) if next.ours =>
        of.foreach { case (name, _) =>
          assertEquals(sum(ran.lastCounts, name), 0L, s"$at: the metric $name downstream")
        }
      case _ =>
    }
    if (story.next.forall(_.ours)) {
      val running = Option.when(story.panes.running)("running" -> "firingsRunning")
      (StoryRun.firings ++ running).foreach { case (kind, metric) =>
        assertEquals(sum(ran.lastCounts, metric), ran.fired.count(_.is(kind)).toLong, s"$at: the metric $metric")
      }
    }
  }

  /** Time passes, and all panes close; then state must be empty. */
  private def outwait(story: Story, run: StoryRun, fired: Seq[Firing]): Seq[Firing] = {
    val told = run.run(TranscriptSuite.waiting(far)).fired
    same(told, expectedAtEnd(story, fired), story.last, "when all closes")
    assertEquals(run.openPanes().flatten, Nil)
    assertEquals(run.panesOpen, 0L)
    assertEquals(run.recordsInState().map(_.removed("totals").filter(_._2 > 0)).filter(_.nonEmpty), Nil)
    told
  }

  private def expectedAtEnd(story: Story, fired: Seq[Firing]): Seq[Firing] = story.end.getOrElse {
    assert(story.next.isEmpty, "a story of two windows says what comes at its end")
    story.open.map(pane => pane.as("close", timesFired(pane, fired, story.panes.keys)))
  }

  /** A row far in the future closes all panes; then state only has that row's records. */
  private def drown(session: SparkSession, story: Story, run: StoryRun, fired: Seq[Firing]): Seq[Firing] = {
    val at = story.panes.lastStart(far)
    val ran = run.run(flood(at, story))
    val (mine, told) = ran.fired.partition(_.end.exists(_ > at))
    assert(mine.forall(f => f.is("early") || f.is("running")), mine.mkString(", "))
    same(told, expectedAtEnd(story, fired), story.last, "when all closes")

    val open = run.openPanes()
    val windows = story.windowsAtStart
    assertEquals(open.last.size.toLong, windows, s"panes left besides those of the last row: ${open.last}")
    assert(open.last.forall(_.end.exists(_ > at)))
    assertEquals(run.panesOpen, windows)
    assert(open.init.forall(_.isEmpty), s"panes left downstream: ${open.init}")
    val records = run.recordsInState()
    assertEquals(records.last, ofOneRow(session, story), "records in state")
    assert(records.init.forall(_.isEmpty), s"records left downstream: ${records.init}")
    told
  }

  private val recordsOfOneRow = TrieMap.empty[(PaneStory, Seq[PaneStory]), Map[String, Int]]

  /** The records of a state after a row far in the future, which closes the panes of an earlier one. That one gives the
    * clock its first reading, so that the pane of the other fires early as at the end of a story.
    */
  private def ofOneRow(session: SparkSession, of: Story): Map[String, Int] = {
    val story = Story.ofOneRow(of)
    recordsOfOneRow.getOrElseUpdate(
      (story.panes, story.together.map(_._2)),
      TemporaryFolder.use { folder =>
        running(session, story, folder) { run =>
          Seq(far / 2, far).foreach(at => run.run(flood(story.panes.lastStart(at), story)))
          run.recordsInState().last
        }
      }
    )
  }

  private def running[T](session: SparkSession, story: Story, folder: Path)(use: StoryRun => T): T = {
    val run = new StoryRun(session, story, folder)
    try use(run)
    finally run.stop()
  }

  /** Compares firings in any order, but those of one pane in theirs. */
  private def same(told: Seq[Firing], expected: Seq[Firing], panes: PaneStory, at: String): Unit = {
    def byPane(firings: Seq[Firing]) = firings.groupBy(_.pane(panes.keys)).map { case (pane, of) =>
      pane -> (if (pane.contains("window")) of else of.sortBy(_.toString))
    }
    if (byPane(told) != byPane(expected)) {
      val missing = expected.diff(told).map(f => s"  missing: $f")
      val instead = told.diff(expected).map(f => s"  instead: $f")
      val order = if (missing.isEmpty && instead.isEmpty) Seq("  the firings of a pane in another order") else Nil
      fail((s"$at:" +: (missing ++ instead ++ order)).mkString("\n"))
    }
  }
}

object TranscriptSuite {

  /** True for a fixed quarter of the test cases: `make test` runs these in Python. With `MULLION_STORIES=all` it runs
    * all of them here.
    */
  private def isSlow(story: Story): Boolean = !sys.env.get("MULLION_STORIES").contains("all") && {
    val hash = new CRC32
    hash.update(story.name.getBytes(UTF_8))
    hash.getValue % 4 == 0
  }

  /** The number of test cases that run in parallel. */
  private val AtOnce = 3

  /** No test case without `flood: false` comes near this time. */
  private val far = 1000000000L * 1000000L

  private def flood(at: Long, story: Story): Step = {
    val json = JsonNodeFactory.instance
    val row = json.arrayNode().add(json.numberNode(java.math.BigDecimal.valueOf(at, 6)))
    org.apache.spark.sql.types.StructType.fromDDL(story.schema).tail.foreach(_ => row.addNull())
    val other = Option.when(story.streams > 1)(Seq(row))
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
