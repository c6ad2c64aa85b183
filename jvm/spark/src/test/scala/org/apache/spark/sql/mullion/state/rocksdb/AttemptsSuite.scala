package org.apache.spark.sql.mullion.state.rocksdb

import java.nio.file.{Files, Path}
import java.util.UUID

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal
import scala.util.{Random, Using}

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.state.PartitionOpener
import org.apache.spark.sql.mullion.state.attempt.{AttemptFiles, AttemptId, RunNumber}
import org.apache.spark.sql.mullion.state.record.{FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.sql.types.{LongType, StructType}

import dev.mullion.TestSeed

/** A partition whose versions are written by several attempts: of one run and of several, on several executors, while
  * maintenance uploads snapshots. Each sequence of events runs with Spark's own RocksDB and files. After each commit of
  * a batch, every reader of the version reads the records of an attempt of that batch.
  */
class AttemptsSuite extends SparkSuite {
  import AttemptsSuite._

  private val rounds = sys.env.get("MULLION_TEST_ROUNDS").map(_.toInt)

  override def beforeAll(): Unit = {
    super.beforeAll()
    // Stores report to it.
    spark.streams
    ()
  }

  test("ids are ordered by run, then by attempt") {
    val random = "0f8fad5b-d9cd-469f-a165-70867728950e"
    // Spark's ids, some of which begin with numbers, come first.
    val ids = Seq(random, "99999999-9999-469f-a165-70867728950e", s"9-1000-$random", s"10-9-$random", s"10-10-$random")
    assertEquals(ids.reverse.sorted(AttemptId.ordering), ids)
    assertEquals(ids.map(AttemptId.runOf), Seq(-1L, -1L, 9L, 10L, 10L))
  }

  test("each run takes a unique number, even in parallel") {
    val folder = TemporaryFolder.make()
    try {
      val root = new org.apache.hadoop.fs.Path(folder.toUri)
      assertEquals(
        Seq.fill(3)(RunNumber.take(root, UUID.randomUUID(), spark.sessionState.newHadoopConf())),
        Seq(1L, 2L, 3L)
      )
      val taken = (1 to 8).map { _ =>
        val result = new java.util.concurrent.CompletableFuture[Long]
        val thread = new Thread(() => {
          result.complete(RunNumber.take(root, UUID.randomUUID(), spark.sessionState.newHadoopConf()))
          ()
        })
        thread.start()
        result
      }
      val numbers = taken.map(_.get())
      assertEquals(numbers.distinct.length, 8, numbers)
      assert(numbers.forall(_ > 3), numbers)
      val files = filesOf(folder.resolve("_mullion")).filterNot(_.startsWith("."))
      assert(files.length == 1 && files.head.startsWith(s"run.${numbers.max}."), files)
    } finally TemporaryFolder.delete(folder)
  }

  test("a version that is committed stays as it is, in every order of two actions, maintenance, restart, a late task") {
    // Each takes at least a tenth of a second. `make test` runs every fourth, MULLION_TEST_ROUNDS= all of them.
    val orders = Interleavings.all.zipWithIndex.collect { case (events, i) if rounds.isDefined || i % 4 == 0 => events }
    val failures = orders.flatMap(events => failureOf(events, named = true))
    assertEquals(failures.take(3), Vector.empty)
  }

  test("the same orders find both faults where files have no ids") {
    // Two actions with maintenance between them, then a restart.
    assert(failureOf(Interleavings.twoActions, named = false).isDefined)
    // A task of an ended run that commits last.
    assert(failureOf(Interleavings.lateTask, named = false).isDefined)
    assertEquals(failureOf(Interleavings.twoActions, named = true), None)
    assertEquals(failureOf(Interleavings.lateTask, named = true), None)
  }

  test("a version that is committed stays as it is, in long random orders") {
    val seed = TestSeed.value
    (0 until rounds.getOrElse(4)).foreach { round =>
      val events = Interleavings.random(new Random(seed + round), 40)
      failureOf(events, named = true).foreach(failure => fail(s"MULLION_SEED=${seed + round}: $failure"))
    }
  }

  /** The error in an order of events, if any. */
  private def failureOf(events: Seq[Event], named: Boolean): Option[String] = {
    val folder = TemporaryFolder.make()
    val query = new Query(folder, named, spark.sessionState.newHadoopConf())
    try {
      events.foreach(query.apply)
      query.restart()
      query.check()
      None
    } catch {
      case e: AssertionError => Some(s"$events: ${e.getMessage}")
      case NonFatal(e)       => Some(s"$events: $e")
    } finally {
      query.close()
      TemporaryFolder.delete(folder)
    }
  }
}

object AttemptsSuite {
  private val Key = new StructType().add("time", LongType, nullable = false).add("key", LongType, nullable = false)
  private val Value = new StructType().add("value", LongType, nullable = false)
  private val Main = FamilySpec("main", Key, Value, RecordOrder.ByFirst(1))

  private def filesOf(folder: Path): Seq[String] =
    Using.resource(Files.list(folder))(_.iterator.asScala.map(_.getFileName.toString).toVector.sorted)

  private def row(values: Long*): UnsafeRow = {
    val row = UnsafeRow.createFromByteArray(8 + 8 * values.length, values.length)
    values.zipWithIndex.foreach { case (value, i) => row.setLong(i, value) }
    row
  }

  sealed trait Event

  /** An action of the batch: a task opens the partition, works and commits. */
  case object Act extends Event

  /** A task opens the partition and works; it commits with `Late`, whatever has happened since. */
  case object Linger extends Event
  case object Late extends Event

  /** The batch is committed. */
  case object Commit extends Event

  /** All executors of all runs do their maintenance. */
  case object Maintain extends Event

  /** Another run starts from the last committed batch. Executors of the previous one stay alive. */
  case object Restart extends Event

  /** The executor loses its RocksDB and its memory. */
  case object Lose extends Event

  object Interleavings {
    private val main = Vector(Linger, Act, Act, Commit, Act, Commit)

    val twoActions: Seq[Event] =
      Vector(Act, Commit, Act, Maintain, Act, Commit, Act, Commit, Restart, Act, Commit)
    val lateTask: Seq[Event] =
      Vector(Act, Commit, Linger, Restart, Act, Commit, Act, Commit, Late, Restart, Act, Commit)

    /** Two actions in the first of two batches and a task that lingers, with a maintenance, a restart, and the late
      * commit of that task, anywhere.
      */
    def all: Vector[Seq[Event]] = for {
      restart <- (1 to main.length).toVector
      late <- restart to main.length
      maintain <- 1 to main.length
    } yield main.zipWithIndex.flatMap { case (event, i) =>
      event +: Seq(
        Option.when(i + 1 == maintain)(Maintain),
        Option.when(i + 1 == restart)(Restart),
        Option.when(i + 1 == late)(Late)
      ).flatten
    }

    def random(random: Random, length: Int): Seq[Event] = Vector.fill(length) {
      random.nextInt(12) match {
        case 0 | 1 | 2 | 3 => Act
        case 4 | 5         => Commit
        case 6 | 7         => Maintain
        case 8             => Restart
        case 9             => Linger
        case 10            => Late
        case _             => Lose
      }
    }
  }

  /** One query over one partition. The value of a record contains the run and batch that wrote it: runs differ, as
    * after a change of the query before its batch was repeated.
    *
    * @param named
    *   whether files have ids in their names
    */
  final class Query(folder: Path, named: Boolean, hadoop: Configuration) {
    private val root = folder.resolve("state")
    private var run = 0L
    private var done = 0L
    private var executor: Executor = _
    private val executors = mutable.Buffer.empty[Executor]
    // The reports of this run's tasks for the running batch's version, and for the previous one.
    private var reports = Vector.empty[String]
    private var before = Option.empty[String]
    private var lingering = Option.empty[(StatePartition, Executor)]
    private var acted = false
    private var attempts = 0
    // The state after the committed batches, and after the running batch's attempts.
    private var model = Map.empty[Long, Long]
    private var next = Map.empty[Long, Long]
    start()

    def apply(event: Event): Unit = event match {
      case Act =>
        val opened = open(executor)
        try work(opened)
        catch { case e: Throwable => giveUp(opened); throw e }
        opened.commit()
        opened.store.getStateStoreCheckpointInfo().stateStoreCkptId.foreach(id => reports :+= id)
        acted = true
      case Linger if lingering.isEmpty =>
        val other = new Executor(run)
        executors += other
        val opened = open(other)
        work(opened)
        lingering = Some(opened -> other)
      case Late =>
        lingering.foreach(_._1.commit())
        lingering = None
      case Commit if acted =>
        done += 1
        model = next
        before = reports.maxOption(AttemptId.ordering)
        begin()
        check()
      case Maintain => executors.foreach(_.maintain())
      case Restart  => restart()
      case Lose     =>
        executor = new Executor(run)
        executors += executor
      case _ =>
    }

    def restart(): Unit = start()

    /** True if a reader with only the checkpoint reads the committed state. */
    def check(): Unit = {
      val reader = new Executor(run)
      try {
        val opened = open(reader, last)
        try assertRecords(opened, model)
        finally giveUp(opened)
      } finally reader.close()
    }

    private def giveUp(opened: StatePartition): Unit = {
      opened.abort()
      opened.store.abort()
    }

    def close(): Unit = {
      lingering.foreach { case (opened, _) => giveUp(opened) }
      executors.foreach(_.close())
    }

    private def start(): Unit = {
      run = RunNumber.take(new org.apache.hadoop.fs.Path(root.resolve("0").toUri), UUID.randomUUID(), hadoop)
      executor = new Executor(run)
      executors += executor
      before = last
      begin()
    }

    private def begin(): Unit = {
      reports = Vector.empty
      acted = false
      next = changed(model)
    }

    private def changed(from: Map[Long, Long]): Map[Long, Long] =
      from.filterNot(_._1 % 5 == done % 5) ++ (0L until 60L).map(k => (k * (done + 1)) % 97 -> (run * 1000 + done))

    private def last: Option[String] =
      if (!named || done == 0) None
      else AttemptFiles.last(new org.apache.hadoop.fs.Path(root.resolve("0/0").toUri), done, hadoop)

    private def open(on: Executor, id: Option[String] = before): StatePartition = {
      val store = on.provider.getStore(done, id)
      attempts += 1
      // Attempts write the same records to other places, like executors with different memory.
      val room = if (attempts % 3 == 0) 0L else 1L << 30
      CachedPartition(new RocksDbPartition(store, Main, Nil), Seq(Main), done, id, room)
    }

    private def work(opened: StatePartition): Unit = {
      assertRecords(opened, model)
      val records = opened.family(Main)
      (model.keySet -- next.keySet).foreach(k => records.remove(row(k % 7, k)))
      next.toVector.foreach { case (k, value) =>
        if (model.contains(k)) records.update(row(k % 7, k), row(value)) else records.insert(row(k % 7, k), row(value))
      }
    }

    private def assertRecords(opened: StatePartition, wanted: Map[Long, Long]): Unit = {
      val records =
        Using.resource(opened.family(Main).all())(_.map(r => r.key.getLong(1) -> r.value.getLong(0)).toVector)
      if (records.toMap != wanted || records.length != wanted.size)
        throw new AssertionError(s"version $done holds ${records.sorted} and not ${wanted.toVector.sorted}")
    }

    private final class Executor(run: Long) {
      val provider: StateStoreProvider = {
        val conf = PartitionOpener.confOf(new SQLConf)
        if (!named) conf.setConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION, 1)
        conf.setConfString(RunNumber.Setting, run.toString)
        // Each maintenance then has a snapshot to upload.
        conf.setConf(SQLConf.STATE_STORE_MIN_DELTAS_FOR_SNAPSHOT, 1)
        conf.setConf(SQLConf.MIN_BATCHES_TO_RETAIN, 2)
        conf.setConfString("spark.sql.streaming.ratioExtraSpaceAllowedInCheckpoint", "0")
        val hadoop = new Configuration(Query.this.hadoop)
        // Set by Spark for each run of a query.
        hadoop.set("sql.streaming.runId", UUID.randomUUID().toString)
        val id = StateStoreProviderId(StateStoreId(root.toUri.toString, 0, 0), UUID.randomUUID())
        val encoder = KeyLayout.own.encoder(Main)
        StateStoreProvider
          .createAndInit(id, Main.key, Main.value, encoder, true, new StateStoreConf(conf), hadoop, false, None)
      }

      def maintain(): Unit = provider.doMaintenance()

      def close(): Unit = provider.close()
    }
  }
}
