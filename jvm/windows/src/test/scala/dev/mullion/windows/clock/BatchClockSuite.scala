package dev.mullion.windows.clock

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.sets.Naive

class BatchClockSuite extends PropertySuite {
  import BatchClock.BeforeAllTime

  private def batch(before: Long, now: Long) = BatchClock(before, now, wall = 0, rowsCame = true)

  test("a pane closes in the batch whose clock is exactly at its time") {
    assert(!batch(8, 9).closes(10))
    assert(batch(9, 10).closes(10))
    assert(batch(9, 11).closes(10))
  }

  test("rows are late only from the batch after the one in which their pane closed") {
    assert(!batch(9, 10).hadClosed(10))
    assert(batch(10, 10).hadClosed(10))
  }

  property("in batch 0 nothing had closed, whenever it was due after the beginning of time") {
    forAll(Naive.anyTime.suchThat(_ != BeforeAllTime))(due => assert(!batch(BeforeAllTime, 0).hadClosed(due)))
  }

  property("whatever ends before the epoch closes in batch 0, whose clock is 0 until rows have been seen") {
    forAll(Gen.choose(Long.MinValue, 0L))(due => assert(batch(BeforeAllTime, 0).closes(due)))
  }

  property("as the clock goes forward a pane closes in one batch, the first that is at or past its time, or not yet") {
    forAll(Gen.nonEmptyListOf(Gen.choose(0L, 50L)).map(_.sorted), Gen.choose(-10L, 60L)) { (clocks, due) =>
      val batches = clocks.zip(BeforeAllTime +: clocks).map { case (now, before) => batch(before, now) }
      val closing = batches.filter(b => b.closes(due) && !b.hadClosed(due))
      assertEquals(closing, batches.find(_.now >= due).toList)
    }
  }
}
