package org.apache.spark.sql.mullion.state.store

import java.nio.file.{Files, Path}
import java.util.UUID

import scala.util.{Random, Using}

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}
import org.apache.spark.{SparkEnv, SparkException}
import org.apache.spark.internal.config.SPECULATION_ENABLED
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreConf}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.shim.BuildInfo
import org.apache.spark.sql.mullion.state.PartitionOpener
import org.apache.spark.sql.mullion.state.records.{Family, FamilySpec, RecordOrder}
import org.apache.spark.sql.mullion.state.versions.WrittenVersions
import org.apache.spark.sql.types.{LongType, StructType}

import dev.mullion.{MullionException, TestSeed}

/** A partition whose versions were written by several attempts of its tasks, on several executors. */
class VersionsSuite extends SparkSuite {
  import VersionsSuite._

  override def beforeAll(): Unit = {
    super.beforeAll()
    // Stores report to it.
    spark.streams
    ()
  }

  private val partition = FunFixture[Path](
    _ => TemporaryFolder.make(),
    folder => {
      StateStore.stop()
      TemporaryFolder.delete(folder)
    }
  )

  partition.test("an attempt that was given up may have written last: the one that counts is left for the other") {
    at =>
      val (a, b) = (new Executor(at), new Executor(at))
      a.run(0)(insert(0 until 2000))
      // In records of their own, where the other one's lie in segments.
      b.run(0, room = 0)(insert(0 until 2000))
      // The other's version is what is in the checkpoint, and A would go on from its own.
      a.run(1, known = Some(b.wrote)) { records =>
        assertEquals(all(records), (0L until 2000L).toSet)
        remove(1000 until 2000)(records)
      }
      new Executor(at).run(2)(records => assertEquals(all(records), (0L until 1000L).toSet))
  }

  partition.test("what went on from a version that is not the checkpoint's is never read as if it had") { at =>
    val (a, b) = (new Executor(at), new Executor(at))
    a.run(0)(insert(0 until 2000))
    b.run(0, room = 0)(insert(0 until 2000))
    // Spark has not heard of B, which wrote all the same.
    a.run(1, known = Some(a.wrote))(remove(1000 until 2000))
    val error = intercept[MullionException](new Executor(at).run(2)(_ => ()))
    assertEquals(error.condition, "STATE_LOST")
    assert(error.getMessage.contains("version 1 of partition 0"), error.getMessage)
    val looked = intercept[MullionException](new Executor(at).look(2))
    assert(looked.getMessage.endsWith("whether it can go on, and says what to do else."), looked.getMessage)
  }

  partition.test("a snapshot that another attempt left is not what the versions after it are made from") { at =>
    val (a, b) = (new Executor(at), new Executor(at))
    b.run(0)(insert(0 until 2000))
    b.run(1, known = Some(b.wrote))(insert(2000 until 3000))
    // A's whole store, as a query leaves it that dies before the batch is noted as done.
    a.run(1, room = 0, snapshot = true)(insert(2000 until 3000))
    assert(Files.exists(at.resolve("0/0/2.zip")))
    b.run(2, known = Some(b.wrote))(remove(500 until 2500))
    new Executor(at).run(3)(records => assertEquals(all(records), (0L until 500L).toSet ++ (2500L until 3000L)))
    assert(!Files.exists(at.resolve("0/0/2.zip")) && !Files.exists(at.resolve("0/0/2.zip.aside")))
  }

  partition.test("a snapshot that versions were made from stays, though Spark could not read it for a while") { at =>
    val b = new Executor(at)
    b.run(0)(insert(0 until 2000))
    b.run(1, known = Some(b.wrote))(insert(2000 until 3000))
    // A's whole store, and another one goes on from that.
    new Executor(at).run(1, room = 0, snapshot = true)(insert(2000 until 3000))
    new Executor(at).run(2)(remove(500 until 2500))
    val snapshot = at.resolve("0/0/2.zip")
    val whole = Files.readAllBytes(snapshot)
    Files.deleteIfExists(at.resolve("0/0/.2.zip.crc"))
    Files.write(snapshot, whole.take(whole.length / 2))
    // From Spark 4.2 on an older snapshot is read in its place, and the changes since are another attempt's.
    intercept[Exception](new Executor(at).run(3)(_ => ())) match {
      case error: MullionException =>
        assertEquals(error.condition, "STATE_LOST")
        assert(error.getMessage.contains("Start the query again"), error.getMessage)
      case error => assert(Set("4.0", "4.1")(BuildInfo.sparkLine), error)
    }
    assertEquals(Files.readAllBytes(snapshot).toSeq, whole.take(whole.length / 2).toSeq)
    Files.deleteIfExists(at.resolve("0/0/.2.zip.crc"))
    Files.write(snapshot, whole)
    new Executor(at).run(3)(records => assertEquals(all(records), (0L until 500L).toSet ++ (2500L until 3000L)))
    // As a process leaves it that ends while it tries.
    Files.move(snapshot, at.resolve("0/0/2.zip.aside"))
    new Executor(at).run(3)(records => assertEquals(all(records), (0L until 500L).toSet ++ (2500L until 3000L)))
    assertEquals(Files.readAllBytes(snapshot).toSeq, whole.toSeq)
  }

  partition.test("where copies of a task may run, what was written together is taken apart, and written so again") {
    at =>
      val before = new Executor(at)
      before.run(0)(insert(0 until 2000))
      SparkEnv.get.conf.set(SPECULATION_ENABLED, true)
      try
        new Executor(at).run(1) { records =>
          assertEquals(all(records), (0L until 2000L).toSet)
          remove(1000 until 2000)(records)
        }
      finally { SparkEnv.get.conf.remove(SPECULATION_ENABLED); () }
      new Executor(at).run(2)(records => assertEquals(all(records), (0L until 1000L).toSet))
      new Executor(at).run(3)(insert(1000 until 1500))
      new Executor(at).run(4)(records => assertEquals(all(records), (0L until 1500L).toSet))
  }

  partition.test("whoever does the attempts, in whatever room, what counts is what they leave") { at =>
    val seed = TestSeed.value
    val random = new Random(seed)
    val executors = IndexedSeq.fill(3)(new Executor(at))
    var model = Set.empty[Long]
    var left = Option.empty[Long]
    (0 until 30).foreach { version =>
      val clue = s"seed $seed, version $version"
      val (in, out) = (random.shuffle((0 until 1500).toVector).take(300), random.shuffle(model.toVector).take(250))
      val after = model ++ in.map(_.toLong) -- out
      // Some attempts are given up, and some of these have written all that there is; the last one counts.
      val attempts = 1 + (if (random.nextInt(3) == 0) random.nextInt(3) else 0)
      (1 to attempts).foreach { attempt =>
        val on = executors(random.nextInt(3))
        val known = if (version == 0 || random.nextInt(4) > 0) left else Some(WrittenVersions.Doubtful)
        on.run(version.toLong, known, room = Seq(0L, 40000L, 1L << 30, 1L << 30)(random.nextInt(4))) { records =>
          assertEquals(all(records), model, clue)
          insert(random.shuffle(in.filterNot(k => model(k.toLong))))(records)
          remove(random.shuffle(out.map(_.toInt)))(records)
        }
        if (attempt == attempts) left = Some(on.wrote)
      }
      model = after
      if (random.nextInt(6) == 0) new Executor(at).run(version + 1L)(records => assertEquals(all(records), model, clue))
    }
  }

  private def insert(keys: Seq[Int])(records: Family): Unit =
    keys.foreach(k => records.insert(row(k.toLong % 7, k.toLong), row(k.toLong)))

  private def remove(keys: Seq[Int])(records: Family): Unit =
    keys.foreach(k => records.remove(row(k.toLong % 7, k.toLong)))

  private def all(records: Family): Set[Long] =
    Using.resource(records.all())(_.map(r => (r.key.getLong(1), r.value.getLong(0))).toVector) match {
      case found =>
        assert(found.forall { case (k, v) => k == v })
        assertEquals(found.size, found.toMap.size)
        found.map(_._1).toSet
    }

  /** One that has its own RocksDB, and its own records in memory. */
  private final class Executor(folder: Path) {
    private val run = UUID.randomUUID()
    var wrote: Long = WrittenVersions.Doubtful

    def run(version: Long, known: Option[Long] = None, room: Long = 1L << 30, snapshot: Boolean = false)(
        work: Family => Unit
    ): Unit = {
      val left = new WrittenVersions
      spark.sparkContext.register(left)
      val before = known.map(id => Map(0 -> id))
      val opener = openerOf(version, room, snapshot, Some(WrittenVersions.OfBatch(before, left)))
      VersionsSuite.task = () => {
        val opened = opener.open(0, hadoop)
        work(opened.family(Main))
        opened.commit()
      }
      try spark.sparkContext.parallelize(Seq(0), 1).foreach(_ => VersionsSuite.task())
      catch { case e: SparkException => throw causeOf(e) }
      wrote = left.value.getOrElse(0, WrittenVersions.Doubtful)
    }

    private def causeOf(failure: Throwable): Throwable = Iterator
      .iterate(failure)(_.getCause)
      .takeWhile(_ ne null)
      .find(cause => cause.isInstanceOf[MullionException] || cause.isInstanceOf[AssertionError])
      .getOrElse(failure)

    def look(version: Long): Unit = openerOf(version, 1L << 30, snapshot = false, None).look(0, hadoop)(_ => ())

    private def openerOf(version: Long, room: Long, snapshot: Boolean, written: Option[WrittenVersions.OfBatch]) = {
      val conf = PartitionOpener.confOf(new SQLConf)
      conf.setConfString(HotMemory.Setting, room.toString)
      conf.setConfString(
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        (!snapshot).toString
      )
      val families = Seq(Main)
      new PartitionOpener(
        families,
        folder.toUri.toString,
        0,
        run,
        version,
        None,
        new StateStoreConf(conf),
        written
      )
    }

    private def hadoop = {
      val conf = new Configuration(spark.sparkContext.hadoopConfiguration)
      // What Spark sets for each run of a query.
      conf.set("sql.streaming.runId", run.toString)
      conf
    }
  }
}

object VersionsSuite {
  // In the one process of these tests: what a task does needs no copy of the test.
  @volatile private var task: () => Unit = () => ()

  private val Long1 = new StructType().add("time", LongType, nullable = false)
  private val Main =
    FamilySpec("main", Long1.add("key", LongType, nullable = false), Long1, RecordOrder.ByFirst(1))

  private def row(values: Long*): UnsafeRow = {
    val made = UnsafeRow.createFromByteArray(8 + 8 * values.length, values.length)
    values.zipWithIndex.foreach { case (value, i) => made.setLong(i, value) }
    made
  }
}
