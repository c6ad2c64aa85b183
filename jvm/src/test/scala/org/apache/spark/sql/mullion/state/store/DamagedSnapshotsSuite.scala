package org.apache.spark.sql.mullion.state.store

import scala.util.{Random, Try, Using}

import org.apache.spark.sql.mullion.state.StateChoice

import dev.mullion.{MullionException, MullionSuite, TestSeed}

/** Snapshots whose bytes are not what was written: they are refused in our words, or say what they said. */
class DamagedSnapshotsSuite extends MullionSuite {
  import MemoryStateStoreSuite.{family, row}

  private def damaged(bytes: Array[Byte], random: Random): Array[Byte] = {
    val at = random.nextInt(bytes.length)
    random.nextInt(6) match {
      case 0 => bytes.take(at)
      case 1 => bytes.patch(at, Seq((random.nextInt(256) - 128).toByte), 1)
      case 2 => bytes.patch(at, Array.fill(1 + random.nextInt(20))(random.nextInt().toByte), random.nextInt(20))
      case 3 => bytes ++ bytes.take(at)
      case 4 => bytes.drop(at)
      case _ => Array.fill(random.nextInt(200))(random.nextInt().toByte)
    }
  }

  test("a snapshot with damaged bytes is refused with what to do, or has every record as it was") {
    val seed = TestSeed.value
    val random = new Random(seed)
    Using.resource(new SimulatedDisk("/damaged")) { disk =>
      def state() = SimulatedState(StateChoice.Memory, Seq(family), partitions = 1, every = 1, inSegments = false, disk)
      val opened = state().open(0, 0, 0L, None, 0L)
      (0L until 2000L).foreach(k => opened.partition.family(family).insert(row(k), row(k * k)))
      opened.partition.commit()
      val (name, whole) = disk.files.head
      val refused = (1 to 1500).count { round =>
        disk.files(name) = damaged(whole, random)
        val read = Try {
          val records = state().open(0, 0, 1L, None, 0L).partition.family(family)
          Using.resource(records.all())(_.map(pair => pair.key.getLong(0) -> pair.value.getLong(0)).toMap)
        }
        read.fold(
          {
            case e: MullionException =>
              assert(Set("DAMAGED_STATE", "INCOMPATIBLE_STATE")(e.condition), s"seed $seed, round $round: $e")
              true
            case e => throw new AssertionError(s"seed $seed, round $round", e)
          },
          found => {
            assertEquals(found, (0L until 2000L).map(k => k -> k * k).toMap, s"seed $seed, round $round")
            false
          }
        )
      }
      assert(clue(refused) > 1000)
    }
  }
}
