package org.apache.spark.sql.mullion.operator.partial.group

import scala.util.Random

import org.apache.spark.SparkConf
import org.apache.spark.memory.{TaskMemoryManager, UnifiedMemoryManager}

import dev.mullion.MullionSuite

/** Groups of one key and one sum in a table, with Spark's pages on and off the heap, and with little memory. */
class GroupTableSuite extends MullionSuite {
  import GroupTableSuite._

  test("a page is below half a region of the collector or fills regions, and no index is half of one") {
    val table = new Memory(offHeap = false, heap = 512L << 20).table()
    val header = 16
    val sizes = (0L until 200000L).map { key =>
      assert(added(table, key))
      table.index.length * 8
    }.toSet
    val (half, whole) = (512 << 10, 1 << 20)
    assert(!sizes.contains(half), sizes)
    val pages = table.pages.toSeq.drop(1).filter(_ ne null).map(_.length * 8 + header)
    assert(pages.forall(page => page < half || page % whole == 0), pages)
    assert(Seq(whole, 2 * whole).forall(pages.contains), pages)
    table.free()
  }

  for (offHeap <- Seq(false, true)) {
    val pages = if (offHeap) "outside the heap" else "in the heap"

    test(s"each group is handed on once with all its rows, and all memory given back: Spark's pages are $pages") {
      val memory = new Memory(offHeap, heap = 512L << 20)
      val (table, random) = (memory.table(), new Random(5))
      val rows = Seq.fill(300000)(random.nextInt(70000).toLong)
      rows.foreach(key => assert(added(table, key)))
      assert(memory.used > 70000 * 8 * 3)
      assert(memory.used <= table.peakBytes)
      assertEquals(handedOn(table), rows.groupMapReduce(identity)(_ => 1L)(_ + _))
      table.free()
      assertEquals(memory.used, 0L)
    }

    test(s"where Spark has no more memory there is no room, until groups are handed on: Spark's pages are $pages") {
      val memory = new Memory(offHeap, heap = 1L << 20)
      val table = memory.table()
      var (from, most) = (0L, 0L)
      var counts = Map.empty[Long, Long]
      while (from < 50000) {
        if (added(table, from)) from += 1
        else {
          most = most max memory.used
          val groups = handedOn(table)
          assert(groups.nonEmpty)
          counts ++= groups
        }
      }
      counts ++= handedOn(table)
      assertEquals(counts, (0L until 50000L).map(_ -> 1L).toMap)
      assert(most > 0 && most <= (1L << 20), most)
      table.free()
      assertEquals(memory.used, 0L)
    }
  }
}

object GroupTableSuite {
  private val RowBytes = 3 * 8

  private final class Memory(offHeap: Boolean, heap: Long) {
    private val conf = new SparkConf(false)
      .set("spark.memory.offHeap.enabled", offHeap.toString)
      .set("spark.memory.offHeap.size", "64m")
    private val manager = new UnifiedMemoryManager(conf, heap, onHeapStorageRegionSize = 0L, numCores = 1)
    private val task = new TaskMemoryManager(manager, 0L)

    def table(): GroupTable = new GroupTable(2, Array.empty, Long.MaxValue, task)

    def used: Long = manager.executionMemoryUsed
  }

  /** Adds a row like generated code: its record is null bits, a key and a count. */
  private def added(table: GroupTable, key: Long): Boolean = {
    val hash = (key * 0x9e3779b97f4a7c15L >>> 32).toInt
    val address = find(table, hash, key)
    val record = if (address != 0L) address else table.add(hash, RowBytes)
    if (record != 0L) {
      val (page, row) = placeOf(table, record)
      if (address == 0L) {
        page(row) = 0L
        page(row + 1) = key
        page(row + 2) = 0L
      }
      page(row + 2) += 1
    }
    record != 0L
  }

  private def find(table: GroupTable, hash: Int, key: Long): Long =
    Iterator
      .iterate(hash & table.mask)(at => (at + 1) & table.mask)
      .map(table.index(_))
      .takeWhile(_ != 0L)
      .filter(entry => (entry >>> GroupTable.AddressBits).toInt == (hash >>> GroupTable.TagShift))
      .map(_ & GroupTable.AddressMask)
      .find { record =>
        val (page, row) = placeOf(table, record)
        page(row + 1) == key
      }
      .getOrElse(0L)

  private def placeOf(table: GroupTable, record: Long): (Array[Long], Int) =
    (table.pages((record >>> GroupTable.WordBits).toInt), (record & GroupTable.WordMask).toInt)

  private def handedOn(table: GroupTable): Map[Long, Long] = {
    table.handOn(isEarly = false)
    val groups =
      Iterator.continually(table).takeWhile(_.advance()).map(t => t.current.getLong(0) -> t.current.getLong(1))
    val all = groups.toSeq
    assert(all.map(_._1).distinct.length == all.length)
    all.toMap
  }
}
