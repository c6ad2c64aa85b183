package org.apache.spark.sql.mullion.state.rocksdb

import scala.util.{Random, Using}

import org.apache.spark.SparkEnv
import org.apache.spark.memory.MemoryMode
import org.apache.spark.sql.mullion.shim.SparkVersionShim
import org.apache.spark.sql.mullion.state.record.StatePartition
import org.apache.spark.sql.mullion.{SparkSuite, TemporaryFolder}

import dev.mullion.TestSeed

/** A partition in RocksDB with cached records, without, and with the transition between them. */
class CachedPartitionSuite extends SparkSuite {
  import PartitionBatches._

  private val partition = FunFixture[PartitionBatches](
    _ => {
      spark.streams // stores report to it
      new PartitionBatches(TemporaryFolder.make())
    },
    _.close()
  )

  partition.test("memory and RocksDB have the same content, with room for all records, for some and for none") {
    batches =>
      val seed = TestSeed.value
      val random = new Random(seed)
      (1 to 40).foreach { batch =>
        // For a few thousand records of about 60 bytes.
        val room = Seq(0L, 40000L, 1L << 30)(Math.min(2, random.nextInt(6)))
        val size = 2000 * random.nextInt(3)
        val changes = Seq(0, 1, 20, 1500)(random.nextInt(4))
        val clue = s"seed $seed, batch $batch, room $room, size $size"
        random.nextInt(6) match {
          case 0 => batches.restart()
          case 1 =>
            batches.fail(room)(opened =>
              (3000L until 3300L).foreach(k => opened.family(Main).insert(row(0, k), row(k)))
            )
          case 2 => batches.goBack()
          case _ =>
        }
        batches.run(room) { opened =>
          val records = opened.family(Main)
          val before = batches.model.size
          (1 to changes).foreach { step =>
            if (random.nextInt(100) == 0 && records.findsManyAtOnce)
              records.expect(Array.fill(300)(random.nextInt(2000).toLong).map(key => row(key % 7, key)))
            val key = random.nextInt(2000).toLong
            val stored = batches.model.get(key)
            assertEquals(records.get(row(key % 7, key)).copied.map(_.getLong(0)), stored, clue)
            if (batches.model.size > size) {
              stored.foreach(_ => records.remove(row(key % 7, key)))
              batches.model -= key
            } else {
              val value = random.nextLong()
              if (stored.isEmpty) records.insert(row(key % 7, key), row(value))
              else records.update(row(key % 7, key), row(value))
              batches.model += key -> value
            }
            // Compares everything: after each of the first changes, later at times.
            if (changes < 50 || step % 100 == 0) opened.checkInvariants()
          }
          // Another scan removes most of its records; insertions meanwhile may exceed the memory.
          if (random.nextInt(2) == 0) Using.resource(records.scan(random.nextInt(8).toLong)) { scan =>
            var steps = random.nextInt(1000)
            while (steps > 0 && scan.next()) {
              steps -= 1
              val key = scan.key.getLong(1)
              if (batches.model.contains(key) && random.nextInt(20) > 0) {
                scan.remove()
                batches.model -= key
              }
              val other = random.nextInt(2000).toLong
              if (random.nextInt(50) == 0 && !batches.model.contains(other)) {
                records.insert(row(other % 7, other), row(other))
                batches.model += other -> other
              }
            }
          }
          opened.checkInvariants()
          assertEquals(opened.rowsAdded, batches.model.size.toLong - before, clue)
          val from = random.nextInt(8).toLong
          val expected = batches.model.filter(_._1 % 7 >= from).toSeq.sortBy(_._1)
          val scanned = Using.resource(records.scan(from))(_.map { r =>
            (r.key.getLong(0), r.key.getLong(1), r.value.getLong(0))
          }.toSeq)
          assertEquals(scanned.map(_._1), scanned.map(_._1).sorted, clue)
          assertEquals(scanned.map(r => r._2 -> r._3).sortBy(_._1), expected, clue)
        }
      }
  }

  partition.test("records of the previous batch are read from memory, and after a restart once from RocksDB") {
    batches =>
      def sum(opened: StatePartition) = (0L until 100L).map(k => opened.family(Main).get(row(0, k)).getLong(0)).sum
      batches.run()(opened => (0L until 100L).foreach(k => opened.family(Main).insert(row(0, k), row(k))))
      batches.run() { opened =>
        assertEquals(sum(opened), 4950L)
        assertEquals((opened.rowsRead, batches.readInStore), (100L, 0L))
      }
      batches.restart()
      batches.run() { opened =>
        assertEquals(sum(opened), 4950L)
        assertEquals((opened.rowsRead, batches.readInStore), (200L, 100L))
      }
  }

  partition.test("keys that are looked up at once are found as they are when they are asked for") { batches =>
    batches.run(0L)(opened => (0L until 100L).foreach(k => opened.family(Main).insert(row(0, k), row(k))))
    batches.run(0L) { opened =>
      val records = opened.family(Main)
      def get(k: Long) = records.get(row(0, k)).copied.map(_.getLong(0))
      assertEquals(records.findsManyAtOnce, SparkVersionShim.findsManyAtOnce)
      records.expect(Array.tabulate(200)(k => row(0, k.toLong)))
      records.update(row(0, 1), row(-1))
      records.remove(row(0, 2))
      records.insert(row(0, 150), row(-150))
      assertEquals(
        Seq(0L, 1L, 2L, 3L, 150L, 151L).map(get),
        Seq(Some(0L), Some(-1L), None, Some(3L), Some(-150L), None)
      )
      records.update(row(0, 3), row(-3))
      assertEquals(get(3), Some(-3L))
    }
    batches.run()(opened => assert(!opened.family(Main).findsManyAtOnce))
  }

  partition.test("a batch that runs again starts from its initial version, not from its own changes") { batches =>
    batches.run()(_.family(Main).insert(row(0, 1), row(1)))
    batches.run()(_.family(Main).update(row(0, 1), row(2)))
    batches.goBack()
    batches.run()(opened => assertEquals(opened.family(Main).get(row(0, 1)).getLong(0), 1L))
  }

  partition.test("a failed batch has changed nothing: its records are read from RocksDB, once") { batches =>
    batches.run()(_.family(Main).insert(row(0, 1), row(1)))
    batches.fail() { opened =>
      opened.family(Main).update(row(0, 1), row(2))
      opened.family(Main).insert(row(0, 2), row(2))
    }
    batches.run() { opened =>
      assertEquals(opened.family(Main).get(row(0, 1)).getLong(0), 1L)
      assertEquals(opened.family(Main).get(row(0, 2)).copied, None)
      assertEquals(batches.readInStore, 1L)
    }
    batches.run() { opened =>
      assertEquals(opened.family(Main).get(row(0, 1)).getLong(0), 1L)
      assertEquals(batches.readInStore, 0L)
    }
  }

  partition.test("a partition that had too much for memory is there again once most of it is removed") { batches =>
    val room = 250000L
    batches.run(room)(opened => (0L until 6000L).foreach(k => opened.family(Main).insert(row(0, k), row(k))))
    batches.run(room) { opened =>
      assertEquals(opened.family(Main).get(row(0, 1)).getLong(0), 1L)
      assertEquals(batches.readInStore, 1L)
      (100L until 6000L).foreach(k => opened.family(Main).remove(row(0, k)))
    }
    batches.run(room)(opened => assertEquals(opened.family(Main).get(row(0, 1)).getLong(0), 1L))
    batches.run(room) { opened =>
      assertEquals(opened.family(Main).get(row(0, 1)).getLong(0), 1L)
      assertEquals(batches.readInStore, 0L)
    }
  }

  partition.test("a partition that has no room any more is not held on to") { batches =>
    batches.run()(_.family(Main).insert(row(0, 1), row(1)))
    batches.run(0L)(_.family(Main).update(row(0, 1), row(2)))
    batches.goBack()
    batches.run() { opened =>
      assertEquals(opened.family(Main).get(row(0, 1)).getLong(0), 1L)
      assertEquals(batches.readInStore, 1L)
    }
  }

  partition.test("small batches with large records stay within the limit, and the rest is in RocksDB") { batches =>
    val room = 1L << 20
    val before = CacheMemory.inUse
    (0L until 60L).foreach { batch =>
      batches.run(room) { opened =>
        (0L until 10L).foreach { k =>
          opened.family(Large).insert(row(batch * 10 + k), bytes(8000))
          assert(clue(CacheMemory.inUse) - before <= room)
        }
      }
      assert(clue(CacheMemory.inUse) - before <= room)
    }
    batches.run(room) { opened =>
      (0L until 600L).foreach(k => assertEquals(opened.family(Large).get(row(k)).getBinary(0).length, 8000))
    }
  }

  test("partitions that are opened at once share the limit") {
    val limit = 1L << 20
    val all = Seq.fill(8)(new PartitionBatches(TemporaryFolder.make()))
    try {
      all.foreach { batches =>
        batches.run()(opened => (0L until 5000L).foreach(k => opened.family(Main).insert(row(0, k), row(k))))
        batches.restart()
      }
      val before = CacheMemory.inUse
      val opened = all.map(_.open(limit))
      assert(clue(CacheMemory.inUse) - before <= limit)
      assert(CacheMemory.inUse > before, "none is in memory")
      opened.foreach { partition =>
        assertEquals(Using.resource(partition.family(Main).all())(_.size), 5000)
        partition.commit()
      }
      assert(clue(CacheMemory.inUse) - before <= limit)
    } finally all.foreach(_.close())
  }

  partition.test("a partition too large when first read is in memory once most of it is removed") { batches =>
    val room = 250000L
    batches.run() { opened =>
      (0L until 6000L).foreach(k => opened.family(Main).insert(row(0, k), row(k)))
      opened.family(Counted).insert(row(0), row(6001))
    }
    batches.restart()
    batches.run(room) { opened =>
      (100L until 6000L).foreach(k => opened.family(Main).remove(row(0, k)))
      opened.family(Counted).update(row(0), row(101))
    }
    batches.run(room)(_ => ())
    batches.run(room) { opened =>
      assertEquals(opened.family(Main).get(row(0, 1)).getLong(0), 1L)
      assertEquals(batches.readInStore, 0L)
    }
  }

  partition.test("a partition is in memory again once others have released theirs") { batches =>
    val room = 4L << 20
    batches.run(room) { opened =>
      (0L until 1000L).foreach(k => opened.family(Main).insert(row(0, k), row(k)))
      opened.family(Counted).insert(row(0), row(1001))
    }
    batches.restart()
    val others = CacheMemory.Share(room)
    assert(others.covers(room - CacheMemory.inUse - 1000))
    batches.run(room)(opened => assertEquals(opened.family(Main).get(row(0, 1)).getLong(0), 1L))
    assert(batches.readInStore > 0)
    others.shrink(0L)
    batches.run(room)(_ => ())
    batches.run(room) { opened =>
      assertEquals(opened.family(Main).get(row(0, 1)).getLong(0), 1L)
      assertEquals(batches.readInStore, 0L)
    }
  }

  partition.test("memory belongs to its provider: closing that frees it, and Spark counts it") { batches =>
    val manager = SparkEnv.get.memoryManager
    val (ours, sparks) = (CacheMemory.inUse, manager.storageMemoryUsed)
    batches.run()(opened => (0L until 20000L).foreach(k => opened.family(Main).insert(row(0, k), row(k))))
    val taken = CacheMemory.inUse - ours
    assert(clue(taken) > 1000000L)
    // The block is one more object.
    assert(Math.abs(clue(manager.storageMemoryUsed - sparks) - taken) < 100)
    batches.run() { opened =>
      assert(clue(CacheMemory.inUse - ours) >= taken)
      assertEquals(manager.storageMemoryUsed - sparks, CacheMemory.inUse - ours)
      (0L until 20000L).foreach(k => opened.family(Main).remove(row(0, k)))
    }
    assert(clue(CacheMemory.inUse - ours) < taken / 100)
    batches.fail()(opened => (0L until 20000L).foreach(k => opened.family(Main).insert(row(0, k), row(k))))
    assertEquals((CacheMemory.inUse, manager.storageMemoryUsed), (ours, sparks))
    batches.run()(opened => (0L until 20000L).foreach(k => opened.family(Main).insert(row(0, k), row(k))))
    batches.restart()
    assertEquals((CacheMemory.inUse, manager.storageMemoryUsed), (ours, sparks))
  }

  partition.test("Spark takes the memory back when it has other use for it, and the partition is read again") {
    batches =>
      val before = CacheMemory.inUse
      batches.run()(opened => (0L until 1000L).foreach(k => opened.family(Main).insert(row(0, k), row(k))))
      assert(CacheMemory.inUse > before)
      SparkEnv.get.blockManager.memoryStore.evictBlocksToFreeSpace(None, CacheMemory.inUse - before, MemoryMode.ON_HEAP)
      assertEquals(CacheMemory.inUse, before)
      batches.run() { opened =>
        assertEquals(opened.family(Main).get(row(0, 1)).getLong(0), 1L)
        assertEquals(batches.readInStore, 1000L)
      }
  }

  partition.test("a batch whose plan runs twice reads its version from RocksDB the first time only") { batches =>
    batches.run()(opened => (0L until 5000L).foreach(k => opened.family(Main).insert(row(k % 7, k), row(0))))
    val read = (1L to 6L).map { batch =>
      val twice = Seq.fill(2) {
        batches.run() { opened =>
          (0L until 10L).foreach { k =>
            val key = row((batch * 10 + k) % 7, batch * 10 + k)
            assertEquals(opened.family(Main).get(key).getLong(0), 0L)
            opened.family(Main).update(key, row(batch))
          }
          opened.family(Main).insert(row(0, 10000 + batch), row(batch))
          opened.family(Main).remove(row((1000 + batch) % 7, 1000 + batch))
          assertEquals(Using.resource(opened.family(Main).all())(_.size), 5000)
        }
        batches.goBack()
        batches.readInStore
      }
      batches.goOn()
      twice
    }
    assertEquals(read.head, Seq(0L, 5000L))
    assertEquals(read.tail.flatten.distinct, Seq(0L))
    batches.restart()
    batches.run() { opened =>
      val values = Using.resource(opened.family(Main).all())(_.map(r => r.key.getLong(1) -> r.value.getLong(0)).toMap)
      assertEquals(values.size, 5000)
      (10L until 70L).foreach(k => assertEquals(values(k), k / 10))
    }
  }

  partition.test("a large window that closes while it is scanned stays within the limit") { batches =>
    val room = 4L << 20
    val before = CacheMemory.inUse
    batches.run(room)(opened => (0L until 20000L).foreach(k => opened.family(Main).insert(row(k / 100, k), row(k))))
    batches.run(room) { opened =>
      var closed = 0
      Using.resource(opened.family(Main).scan(Long.MinValue)) { scan =>
        scan.foreach { record =>
          opened.family(Main).remove(record.key.copy())
          closed += 1
          assert(clue(CacheMemory.inUse) - before <= room)
        }
      }
      assertEquals(closed, 20000)
      assertEquals(Using.resource(opened.family(Main).all())(_.size), 0)
    }
    batches.run(room)(opened => assertEquals(Using.resource(opened.family(Main).all())(_.size), 0))
  }

  partition.test("records are written many at once, and leave nothing behind") { batches =>
    // The number of records of a segment; each has its own time.
    val full = 682
    def keys(of: Range) = of.map(k => row(k.toLong / full, k.toLong))
    batches.run()(opened => keys(0 until 9 * full).foreach(opened.family(Main).insert(_, row(1))))
    assertEquals(batches.written, Written(alone = 0, segments = 9, marked = 0))
    batches.run()(opened => keys(0 until 4 * full by 2).foreach(opened.family(Main).remove(_)))
    assertEquals(batches.written, Written(alone = 0, segments = 9, marked = 4))
    // The first two are emptied.
    batches.run()(opened => keys(1 until 2 * full by 2).foreach(opened.family(Main).remove(_)))
    assertEquals(batches.written, Written(alone = 0, segments = 7, marked = 2))
    // A twentieth of the others remains, and is merged into one.
    val remaining = (2 * full until 9 * full).filter(_ % 20 == 1)
    batches.run() { opened =>
      val records = opened.family(Main)
      keys(2 * full until 9 * full)
        .filter(k => k.getLong(1) % 20 != 1 && !records.get(k).isAbsent)
        .foreach(records.remove)
    }
    assertEquals(batches.written, Written(alone = 0, segments = 1, marked = 0))
    batches.restart()
    batches.run() { opened =>
      assertEquals(
        Using.resource(opened.family(Main).all())(_.map(_.key.getLong(1)).toSet),
        remaining.map(_.toLong).toSet
      )
      remaining.foreach(k => opened.family(Main).remove(row(k.toLong / full, k.toLong)))
    }
    assertEquals(batches.written, Written(alone = 0, segments = 0, marked = 0))
  }

  partition.test("the rest of a segment is rewritten, from memory or, with many records, from the segment") { batches =>
    val full = 682L
    var expected = Map.empty[Long, Long]
    def put(from: Long, until: Long): Unit = {
      batches.run() { opened =>
        (from until until).foreach(k => opened.family(Main).insert(row(k / full, k), row(k)))
      }
      expected ++= (from until until).map(k => k -> k)
    }
    for (others <- Seq(0L, 30 * full)) {
      val from = 100 * full + others * 2
      if (others > 0) put(0, others)
      put(from, from + full)
      val segmentsBefore = batches.written.segments
      batches.run() { opened =>
        (from until from + full).filter(_ % 10 != 1).foreach { k =>
          opened.family(Main).remove(row(k / full, k))
          expected -= k
        }
        // Otherwise the rest would not be written in this batch.
        opened.family(Main).insert(row(0, -1 - others), row(7))
        expected += (-1 - others) -> 7L
      }
      // The last one is merged too, if it is small.
      assert(batches.written.segments <= segmentsBefore)
      batches.run()(_.checkInvariants())
      batches.restart()
      batches.run() { opened =>
        opened.checkInvariants()
        val records =
          Using.resource(opened.family(Main).all())(_.map(r => r.key.getLong(1) -> r.value.getLong(0)).toMap)
        assertEquals(records, expected)
      }
    }
  }

  partition.test("small batches are written with the ones before them until a segment has some size") { batches =>
    (0L until 100L).foreach { batch =>
      batches.run()(opened =>
        (0L until 10L).foreach(k => opened.family(Main).insert(row(batch, batch * 10 + k), row(k)))
      )
    }
    assert(batches.written.segments <= 7, batches.written)
    batches.restart()
    batches.run()(opened => assertEquals(opened.family(Main).all().map(_.key.getLong(1)).toSet, (0L until 1000L).toSet))
  }
}
