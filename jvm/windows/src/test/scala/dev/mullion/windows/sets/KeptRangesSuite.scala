package dev.mullion.windows.sets

import org.scalacheck.Gen
import org.scalacheck.Prop.{forAll, propBoolean}

import dev.mullion.PropertySuite

/** Compares with ranges that are searched one by one. */
class KeptRangesSuite extends PropertySuite {
  private val ranges = for {
    size <- Gen.choose(1L, 30L)
    step <- Gen.choose(1L, 40L)
    expires <- Gen.option(Gen.choose(0L, 50L))
  } yield (size, step, expires)
  private val time = Gen.choose(-100L, 100L)

  /** Starts of all ranges, near and far. */
  private def starts(size: Long, step: Long): Seq[Long] =
    (-400L to 400L).filter(start => Math.floorMod(start + size, step) == 0)

  property("the ranges of a time are those that hold it, and the last of them is read") {
    forAll(ranges, time) { case ((size, step, expires), t) =>
      val keptRanges = new KeptRanges(size, step, expires)
      val holding = starts(size, step).filter(start => start <= t && t < start + size)
      assertEquals((keptRanges.firstStart(t) to keptRanges.lastStart(t) by step).toSeq, holding)
      assertEquals(keptRanges.holds(t), holding.nonEmpty)
      assertEquals(keptRanges.lastStart(t), starts(size, step).filter(_ <= t).max)
    }
  }

  property("a range is stale once the range that was last to start before it expires starts at its end") {
    forAll(ranges, time, time) { case ((size, step, expires), t, clock) =>
      val keptRanges = new KeptRanges(size, step, expires)
      val start = keptRanges.lastStart(t)
      val stale = expires.exists(e => starts(size, step).filter(_ <= clock - e).max >= start + size)
      assertEquals(keptRanges.isStale(start, clock), stale)
    }
  }

  property("a range is due at the first time at which it is stale") {
    forAll(ranges, time) { case ((size, step, expires), t) =>
      val keptRanges = new KeptRanges(size, step, expires)
      val start = keptRanges.lastStart(t)
      keptRanges.due(start) match {
        case Some(due) =>
          keptRanges.isStale(start, due) :| "stale when due" && !keptRanges.isStale(start, due - 1) :| "not before"
        case None => expires.isEmpty :| "never due, and never expires"
      }
    }
  }
}
