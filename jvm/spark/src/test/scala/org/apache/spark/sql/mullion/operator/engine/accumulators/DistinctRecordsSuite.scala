package org.apache.spark.sql.mullion.operator.engine.accumulators

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{CollectList, Count}
import org.apache.spark.sql.mullion.SparkSuite
import org.apache.spark.sql.mullion.expressions.functions.Distinct
import org.apache.spark.sql.mullion.operator.engine.PartitionTotals
import org.apache.spark.sql.mullion.state.record.{FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.mullion.state.rocksdb.SimulatedState
import org.apache.spark.sql.types._

import dev.mullion.TestSeed

class DistinctRecordsSuite extends SparkSuite {
  import DistinctRecordsSuite._

  private val places = Seq[(String, Option[Long => Long])](
    "places by hash" -> None,
    "equal places" -> Some(_ => 7L),
    "few places" -> Some(hash => hash & 3L)
  )

  for ((name, placeOf) <- places; room <- Seq(1L << 30, 0L))
    test(s"values of panes are counted once, and removed with their pane ($name, $room bytes of memory)") {
      assume(SimulatedState.hasRocksDb)
      val seed = TestSeed.value
      val random = new Random(seed)
      val state = new SimulatedState(families)
      val model = mutable.Map.empty[Long, mutable.Set[Long]]
      val heads = mutable.Map.empty[Long, UnsafeRow]
      var id = Option.empty[String]
      try
        (0 until 8).foreach { version =>
          val opened = state.open(executor = version % 2, 0, version.toLong, id, room)
          val records = recordsIn(opened.partition, placeOf)
          (0L until 3L).foreach { pane =>
            val work = heads.get(pane).fold(accumulators.blank())(accumulators.load)
            val added = Seq.fill(random.nextInt(120))(random.nextInt(400).toLong)
            added.foreach(v => functions.foreach(f => f.update(work, row(v))))
            model.getOrElseUpdate(pane, mutable.Set.empty) ++= added
            records.settle(row(pane), work)
            val shown = records.shown(row(pane), work)
            val clue = s"seed $seed, version $version, pane $pane"
            assertEquals(functions(0).eval(shown), model(pane).size.toLong, clue)
            val listed = functions(1).eval(shown).asInstanceOf[org.apache.spark.sql.catalyst.util.ArrayData]
            assertEquals(listed.toLongArray().toSet, model(pane).toSet, clue)
            assertEquals(listed.numElements(), model(pane).size, clue)
            val complete = records.complete(row(pane), work)
            assertEquals(functions(0).eval(complete), model(pane).size.toLong, clue)
            if (random.nextInt(5) == 0) {
              records.drop(row(pane))
              heads.remove(pane)
              model.remove(pane)
            } else heads(pane) = accumulators.rest(work).copy()
          }
          val stored = model.collect { case (pane, values) if records.hasRecords(heads(pane)) => 2 * values.size }.sum
          assertEquals(count(opened.partition), stored, s"seed $seed, version $version")
          opened.partition.commit()
          id = opened.id()
          opened.abort()
        }
      finally state.close()
    }

  test("keys that are looked up together take at most 256 KB, unless a single one is larger") {
    assertEquals(DistinctRecords.keysAtOnce(40), 512)
    assertEquals(DistinctRecords.keysAtOnce(100_000), 2)
    assertEquals(DistinctRecords.keysAtOnce(1 << 20), 1)
  }
}

object DistinctRecordsSuite {
  private val value = BoundReference(0, LongType, nullable = true)

  private def functionsAt(offset: Int): Seq[Distinct] = Seq(
    Distinct(Seq(value), Count(Seq(value)), id = 5L, mutableAggBufferOffset = offset),
    Distinct(Seq(value), CollectList(value), id = -6L, mutableAggBufferOffset = offset + 1)
  )

  private val functions = functionsAt(0)

  private val accumulators = new Accumulators(functions, Nil, functions.flatMap(_.inputAggBufferAttributes), 0)

  private val heads = FamilySpec(
    "panes",
    new StructType().add("start", LongType, nullable = false).add("last", LongType, nullable = false),
    Accumulators.schema(functions, Nil),
    RecordOrder.ByLast
  )

  private val families = Seq(heads, DistinctRecords.family(heads), PartitionTotals.family)

  private def recordsIn(partition: StatePartition, placeOf: Option[Long => Long]): DistinctRecords =
    placeOf.fold(new DistinctRecords(functions, heads, partition))(new DistinctRecords(functions, heads, partition, _))

  private def count(partition: StatePartition): Int = {
    val scan = partition.family(DistinctRecords.family(heads)).all()
    try scan.size
    finally scan.close()
  }

  private val toRow = UnsafeProjection.create(Array[DataType](LongType, LongType))

  private def row(number: Long): UnsafeRow = toRow(InternalRow(number, 1L)).copy()
}
