package org.apache.spark.sql.mullion.state.store

import java.io.DataOutputStream
import java.nio.file.{Files, Path}

import scala.util.Using

import org.apache.hadoop.conf.Configuration

import org.apache.spark.SparkEnv
import org.apache.spark.io.LZ4CompressionCodec
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolders}
import org.apache.spark.sql.mullion.state.records.{FamilySpec, RecordOrder}
import org.apache.spark.sql.types.{LongType, StructType}

import dev.mullion.MullionException

/** The versions of a store in memory: what attempts of a task, restarts and lost executors make of them. */
class MemoryStateStoreSuite extends SparkSuite with TemporaryFolders {
  import MemoryStateStoreSuite._

  /** A provider as a task of an executor finds it, or as a new executor makes it. */
  private def provider(folder: Path, every: Int = 10, ids: Boolean = false): MemoryStateStoreProvider = {
    spark.version // a codec for snapshots comes from the running Spark
    val conf = new SQLConf
    conf.setConfString(MemorySnapshots.Every, every.toString)
    conf.setConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION, if (ids) 2 else 1)
    val made = new MemoryStateStoreProvider
    made.init(
      StateStoreId(folder.toUri.toString, 0, 0),
      family.key,
      family.value,
      NoPrefixKeyStateEncoderSpec(family.key),
      useColumnFamilies = false,
      new StateStoreConf(conf),
      new Configuration(),
      useMultipleValuesPerKey = false,
      None
    )
    made
  }

  private def change(store: MemoryStateStore, adds: Long): Unit = {
    val records = new MemoryPartition(store, Seq(family)).family(family)
    (0L until 300L).foreach { k =>
      val was = records.get(row(k))
      if (was eq null) records.insert(row(k), row(adds)) else records.update(row(k), row(was.getLong(0) + adds))
    }
  }

  private def commit(of: MemoryStateStoreProvider, from: Long, adds: Long): Unit = {
    val store = of.getStore(from)
    change(store, adds)
    store.commit()
    ()
  }

  private def sum(of: MemoryStateStoreProvider, version: Long): Long = sum(of.getStore(version))

  private def sum(store: MemoryStateStore): Long = {
    val records = new MemoryPartition(store, Seq(family)).family(family)
    val sums = (0L until 300L).map(k => Option(records.get(row(k))).fold(0L)(_.getLong(0))).distinct
    assertEquals(sums.size, 1)
    sums.head
  }

  folder.test("two attempts of a task work at once, and both come to the same version") { folder =>
    val store = provider(folder)
    commit(store, 0, adds = 1)
    val one = store.getStore(1)
    val other = store.getStore(1)
    change(one, adds = 10)
    change(other, adds = 10)
    assertEquals(sum(store, 1), 1L)
    one.commit()
    assertEquals(sum(other), 11L)
    other.commit()
    assertEquals((sum(store, 1), sum(store, 2)), (1L, 11L))
  }

  folder.test("an attempt that is aborted, before or after another commits, leaves nothing") { folder =>
    val store = provider(folder)
    commit(store, 0, adds = 1)
    val before = store.getStore(1)
    change(before, adds = 100)
    before.abort()
    val after = store.getStore(1)
    change(after, adds = 100)
    commit(store, 1, adds = 10)
    after.abort()
    assert(!before.hasCommitted && !after.hasCommitted)
    assertEquals((sum(store, 1), sum(store, 2)), (1L, 11L))
  }

  folder.test("a batch that is tried again starts from the version before") { folder =>
    val store = provider(folder)
    (0L until 5L).foreach(commit(store, _, adds = 1))
    commit(store, 4, adds = 1)
    assertEquals((sum(store, 4), sum(store, 5)), (4L, 5L))
  }

  folder.test("where versions have ids, each attempt's is its own") { folder =>
    val store = provider(folder, ids = true)
    def attempt(adds: Long): StateStoreCheckpointInfo = {
      val opened = store.getStore(0)
      change(opened, adds)
      opened.commit()
      opened.getStateStoreCheckpointInfo()
    }
    val one = attempt(adds = 1)
    val other = attempt(adds = 2)
    assert(one.stateStoreCkptId != other.stateStoreCkptId)
    val next = store.getStore(1, one.stateStoreCkptId)
    assertEquals(sum(next), 1L)
    assertEquals(next.getStateStoreCheckpointInfo().baseStateStoreCkptId, one.stateStoreCkptId)
    // And the same on an executor that has only the snapshots.
    val elsewhere = provider(folder, ids = true)
    assertEquals(
      sum(elsewhere.getStore(1, other.stateStoreCkptId)),
      2L
    )
  }

  folder.test("a version that is gone fails the task, and says what to do") { folder =>
    val store = provider(folder)
    (0L until 5L).foreach(commit(store, _, adds = 1))
    Seq(() => store.getStore(2), () => provider(folder).getStore(5)).foreach { open =>
      val lost = intercept[MullionException](open())
      assertEquals(lost.condition, "STATE_LOST")
      assert(clue(lost.getMessage).contains("mullion.recover("))
    }
  }

  folder.test("an executor that has nothing goes on from a snapshot of the version that is asked for") { folder =>
    val store = provider(folder, every = 3)
    (0L until 6L).foreach(commit(store, _, adds = 1))
    val elsewhere = provider(folder, every = 3)
    assertEquals(sum(elsewhere, 6), 6L)
    commit(elsewhere, 6, adds = 1)
    assertEquals((sum(elsewhere, 6), sum(elsewhere, 7)), (6L, 7L))
  }

  folder.test("the first version and every so many leave a snapshot, and the last two are kept") { folder =>
    val store = provider(folder, every = 4)
    val files =
      new MemorySnapshots(StateStoreId(folder.toUri.toString, 0, 0).storeCheckpointLocation(), new Configuration())
    val kept = (0L until 13L).map { v =>
      commit(store, v, adds = 1)
      files.all.map(_._1).sorted
    }
    assertEquals(kept.distinct, IndexedSeq(Seq(1L), Seq(1L, 4L), Seq(4L, 8L), Seq(8L, 12L)))
    val read = files.read(12, None).get
    assertEquals(read(family.name).size, 300L)
    val taken = store.getStore(12).metrics.memoryUsedBytes
    // Of each its value, and what finds it: that tells its key.
    val least = 300 * (20 + 16)
    assert(clue(taken) >= least && taken <= 2 * least)
  }

  folder.test("a snapshot of another format is refused, with the file's name") { folder =>
    val store = provider(folder)
    commit(store, 0, adds = 1)
    val file = Using.resource(Files.walk(folder))(_.filter(_.getFileName.toString == "1.memory").findFirst().get)
    val codec = new LZ4CompressionCodec(SparkEnv.get.conf)
    Using.resource(new DataOutputStream(codec.compressedOutputStream(Files.newOutputStream(file))))(_.writeInt(3))
    // Its sum is of what it was.
    Files.deleteIfExists(file.resolveSibling(".1.memory.crc"))
    val refused = intercept[MullionException](provider(folder).getStore(1))
    assertEquals(refused.condition, "INCOMPATIBLE_STATE")
    assert(clue(refused.getMessage).contains("1.memory is a snapshot of format 3"))
  }

  folder.test("a store that was unloaded while a task worked commits no more") { folder =>
    val store = provider(folder)
    val open = store.getStore(0)
    change(open, adds = 1)
    store.close()
    intercept[IllegalStateException](open.commit())
    assert(!open.hasCommitted)
  }

  folder.test("a snapshot interval that is none is refused") { folder =>
    Seq("0", "-1", "often").foreach { said =>
      val refused = intercept[MullionException](MemorySnapshots.every(_ => Some(said)))
      assert(clue(refused.getMessage).contains(s"${MemorySnapshots.Every}=$said is not a number of batches"))
    }
    assertEquals(MemorySnapshots.every(_ => None), 10L)
  }
}

object MemoryStateStoreSuite {
  private[store] val family = FamilySpec(
    "sums",
    new StructType().add("key", LongType, nullable = false),
    new StructType().add("sum", LongType, nullable = false),
    RecordOrder.Unordered
  )

  private[store] def row(value: Long): UnsafeRow = {
    val row = UnsafeRow.createFromByteArray(16, 1)
    row.setLong(0, value)
    row
  }
}
