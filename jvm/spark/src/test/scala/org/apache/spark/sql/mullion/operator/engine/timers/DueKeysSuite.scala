package org.apache.spark.sql.mullion.operator.engine.timers

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.mullion.operator.engine.PaneCounts
import org.apache.spark.sql.mullion.state.record.{BorrowedRow, Family, FamilyScan, RemovingScan}
import org.apache.spark.sql.types.LongType

import dev.mullion.MullionSuite
import dev.mullion.windows.clock.BatchClock

class DueKeysSuite extends MullionSuite {
  import DueKeysSuite._

  test("due keys are processed in parts, in the order of their records, and their timers are removed") {
    val run = new Run(atOnce = 3)(10L -> 7L, 11L -> 2L, 12L -> 9L, 13L -> 1L, 20L -> 8L, 20L -> 5L, 21L -> 3L)
    assertEquals(run.upTo(20L), Seq(2L, 7L, 9L, 1L, 5L, 8L))
    assertEquals(run.timers.remaining, Seq(21L -> 3L))
    assertEquals(run.counts.nextClose, 21L)
  }

  test("a key that waits again is noted, also if it is of the last that were due") {
    val run = new Run(atOnce = 2)(10L -> 7L, 11L -> 2L)
    assertEquals(run.upTo(30L, waits = Map(7L -> 40L, 2L -> 35L)), Seq(2L, 7L))
    assertEquals(run.counts.nextClose, 35L)
  }

  test("where nothing is due or waits there is no next time") {
    val run = new Run(atOnce = 2)()
    assertEquals(run.upTo(30L), Nil)
    assertEquals(run.counts.nextClose, PaneCounts.Never)
  }

  test("a key is stored after its output is consumed, and before the next is loaded") {
    val run = new Run(atOnce = 2)(10L -> 7L, 11L -> 2L)
    run.upTo(30L)
    assertEquals(run.steps, Seq("load 2", "store 2", "load 7", "store 7"))
  }
}

object DueKeysSuite {
  private val timerRow = UnsafeProjection.create(Array(LongType, LongType): Array[org.apache.spark.sql.types.DataType])
  private val keyRow = UnsafeProjection.create(Seq(BoundReference(1, LongType, nullable = false)))

  /** Timers as `(due, key)`. */
  private final class Run(atOnce: Int)(of: (Long, Long)*) {
    val timers = new Timers(of)
    val counts = new PaneCounts
    var steps: Seq[String] = Nil

    def upTo(now: Long, waits: Map[Long, Long] = Map.empty): Seq[Long] = {
      val clock = BatchClock(before = 0L, now, wall = 0L, rowsCame = true)
      val due = new DueKeys[Long](timers, 0, clock, counts, Seq(LongType), atOnce)(keyRow(_)) {
        override protected def load(key: UnsafeRow): Long = {
          steps :+= s"load ${key.getLong(0)}"
          key.getLong(0)
        }
        override protected def fire(key: Long): Iterator[InternalRow] = Iterator.single(InternalRow(key))
        override protected def store(key: Long): Long = {
          steps :+= s"store $key"
          waits.getOrElse(key, PaneCounts.Never)
        }
      }
      due.firing().map(_.getLong(0)).toSeq
    }
  }

  private final class Timers(of: Seq[(Long, Long)]) extends Family {
    private val timers = mutable.TreeSet.from(of)

    def remaining: Seq[(Long, Long)] = timers.toSeq

    override def scan(from: Long): RemovingScan = {
      val due = timers.toSeq.filter(_._1 >= from).iterator
      new RemovingScan {
        private var last = Option.empty[(Long, Long)]
        override def next(): Boolean = {
          last = due.nextOption()
          last.isDefined
        }
        override def key: BorrowedRow =
          BorrowedRow(timerRow(last.fold(InternalRow.empty) { case (due, key) => InternalRow(due, key) }))
        override def value: BorrowedRow = BorrowedRow(KeyOnly.value)
        override def remove(): Unit = timers --= last
        override def close(): Unit = ()
      }
    }

    override def remove(key: UnsafeRow): Unit = throw new UnsupportedOperationException
    override def get(key: UnsafeRow): BorrowedRow = throw new UnsupportedOperationException
    override def insert(key: UnsafeRow, value: UnsafeRow): Unit = throw new UnsupportedOperationException
    override def update(key: UnsafeRow, value: UnsafeRow): Unit = throw new UnsupportedOperationException
    override def range(from: UnsafeRow, until: UnsafeRow): FamilyScan = throw new UnsupportedOperationException
  }
}
