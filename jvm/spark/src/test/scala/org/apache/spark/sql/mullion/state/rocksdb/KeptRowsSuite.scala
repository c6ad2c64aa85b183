package org.apache.spark.sql.mullion.state.rocksdb

import java.util.UUID

import scala.util.Random

import org.apache.spark.SparkEnv
import org.apache.spark.memory.MemoryMode
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.execution.streaming.state.{StateStoreId, StateStoreProviderId}
import org.apache.spark.sql.mullion.SparkSuite

/** The rows of a batch in memory, for further actions on it. */
class KeptRowsSuite extends SparkSuite {
  private val seed = sys.env.get("MULLION_TEST_SEED").fold(7L)(_.toLong)
  private val Room = 8L << 20

  override def beforeAll(): Unit = {
    super.beforeAll()
    assert(SparkEnv.get ne null)
  }

  private def rowOf(number: Long, bytes: Int): UnsafeRow = {
    val writer = new UnsafeRowWriter(2)
    writer.resetRowWriter()
    writer.write(0, number)
    writer.write(1, Array.fill[Byte](bytes)(number.toByte))
    writer.getRow
  }

  private def bytesOf(rows: RowBytes) = rows.iterator.map(row => row.getLong(0) -> row.getBinary(1).toSeq).toSeq

  test(s"rows of all sizes come back in their order, as often as they are asked for (seed $seed)") {
    val random = new Random(seed)
    (1 to 20).foreach { _ =>
      val share = CacheMemory.Share(Room)
      val rows = new RowBytes(2, share)
      val sizes = Seq.fill(random.nextInt(200))(Seq(0, 3, 50, 1000, 40000)(random.nextInt(5)))
      val added = sizes.zipWithIndex.takeWhile { case (size, i) => rows.add(rowOf(i, size)) }
      val expected = added.map { case (size, i) => i.toLong -> Seq.fill(size)(i.toByte) }
      assertEquals(bytesOf(rows), expected)
      assertEquals(bytesOf(rows), expected)
      assert(rows.bytes <= share.bytes)
      rows.free()
      assertEquals(share.bytes, 0L)
      assert(rows.iterator.isEmpty)
    }
  }

  test("rows take no more than an eighth of the room that there is") {
    val before = CacheMemory.inUse
    val rows = new RowBytes(2, CacheMemory.Share(before + Room))
    while (rows.add(rowOf(1, 1000))) ()
    assert(clue(rows.bytes) <= Room / 8)
    assert(rows.bytes > Room / 16)
    assert(!rows.add(rowOf(1, Room.toInt)))
    rows.free()
    assertEquals(CacheMemory.inUse, before)
    assert(!new RowBytes(2, CacheMemory.Share(0L)).add(rowOf(1, 0)))
  }

  private def filled(): RowBytes = {
    val rows = new RowBytes(2, CacheMemory.Share(CacheMemory.inUse + Room))
    (0L until 100L).foreach(i => assert(rows.add(rowOf(i, 10))))
    rows
  }

  private val id = StateStoreProviderId(StateStoreId("/nowhere", 0L, 0), UUID.randomUUID())

  test("they are found by the attempt that returned them until the next batch, or until Spark wants the memory") {
    val before = CacheMemory.inUse
    val keptRows = new KeptRows
    keptRows.list(id)
    assert(keptRows.keep(3L, filled()))
    assertEquals(KeptRows.of(id).flatMap(_.of(3L)).map(bytesOf(_).length), Some(100))
    assertEquals(keptRows.of(4L), None)
    assert(CacheMemory.inUse > before)
    assert(keptRows.keep(4L, filled()))
    assertEquals(keptRows.of(3L), None)
    keptRows.drop()
    assertEquals(keptRows.of(4L), None)
    assertEquals(CacheMemory.inUse, before)
    assert(keptRows.keep(5L, filled()))
    SparkEnv.get.blockManager.memoryStore.evictBlocksToFreeSpace(None, CacheMemory.inUse - before, MemoryMode.ON_HEAP)
    assertEquals(keptRows.of(5L), None)
    assertEquals(CacheMemory.inUse, before)
    keptRows.close()
  }

  test("a provider that is closed has none, and keeps none that a task still brings") {
    val before = CacheMemory.inUse
    val keptRows = new KeptRows
    keptRows.list(id)
    assert(keptRows.keep(3L, filled()))
    keptRows.close()
    assertEquals(KeptRows.of(id), None)
    assertEquals(CacheMemory.inUse, before)
    assert(!keptRows.keep(4L, filled()))
    keptRows.list(id)
    assertEquals(KeptRows.of(id), None)
    assertEquals(CacheMemory.inUse, before)
  }
}
