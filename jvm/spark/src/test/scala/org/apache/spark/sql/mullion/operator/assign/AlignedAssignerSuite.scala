package org.apache.spark.sql.mullion.operator.assign

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.{AlignedRules, LatePolicy}
import dev.mullion.windows.spec.{AlignedWindow, CalendarWindow, SliceGrid, TimeMath}

/** Decisions about a row's time without a division, compared with the definition in unbounded integers. */
class AlignedAssignerSuite extends PropertySuite {

  override def scalaCheckTestParameters = super.scalaCheckTestParameters.withMinSuccessfulTests(1000)

  private val anyTime: Gen[Long] = Gen.frequency(
    3 -> Gen.choose(-1000L, 1000L),
    3 -> Gen.choose(Long.MinValue, Long.MaxValue),
    2 -> Gen.choose(0L, 300L).map(Long.MinValue + _),
    2 -> Gen.choose(0L, 300L).map(Long.MaxValue - _)
  )

  // Spark's watermark begins at the epoch.
  private val anyClock: Gen[Long] =
    Gen.frequency(1 -> Gen.const(BatchClock.BeforeAllTime), 9 -> anyTime.map(Math.max(0L, _)))

  private val length: Gen[Long] = Gen.oneOf(Gen.choose(1L, 100L), Gen.choose(0, 60).map(1L << _))

  private val rules: Gen[(AlignedWindow, AlignedRules)] = for {
    size <- length
    slide <- Gen.oneOf(Gen.const(size), length)
    offset <- Gen.choose(0L, slide - 1)
    lateness <- Gen.oneOf(Gen.const(0L), Gen.choose(0L, 50L), Gen.choose(0L, 1L << 50))
    window = AlignedWindow(size, slide, offset)
  } yield window -> AlignedRules(window, lateness, early = None, LatePolicy.Drop)

  private def floorDiv(a: BigInt, b: BigInt) = { val (q, r) = a /% b; if (r.signum < 0) q - 1 else q }

  property("a row is late once its last window has closed, at the ends of time too") {
    forAll(rules, anyClock, anyTime) { case ((window, rules), before, ts) =>
      val start = floorDiv(BigInt(ts) - window.offset, window.slide) * window.slide + window.offset
      val open = (BigInt(before) - rules.allowedLateness).max(BigInt(Long.MinValue))
      val assigner = new AlignedAssigner(rules, before)
      val closed = before != BatchClock.BeforeAllTime && start + window.size <= open
      assertEquals(assigner.isLate(ts, 0L), closed, s"$rules, clock $before, row $ts")
      latenessInCode(assigner).foreach(late =>
        assertEquals(late(ts), closed, s"code of $rules, clock $before, row $ts")
      )
      if (assigner.holdsAll) assert(assigner.inWindow(ts, 0L), s"$rules, row $ts")
    }
  }

  private def latenessInCode(assigner: Assigner): Option[Long => Boolean] = assigner.lateBefore.map(from => _ < from)

  property("a row of windows that do not overlap has the start of its window as its slice") {
    forAll(rules.filter(!_._1.overlaps), anyTime) { case ((window, rules), ts) =>
      val start = floorDiv(BigInt(ts) - window.offset, window.slide) * window.slide + window.offset
      assertEquals(BigInt(new AlignedAssigner(rules, 0L).slice(ts, 0L)), start.max(BigInt(Long.MinValue)))
    }
  }

  property("the code for a slice is the slice, and there is none where a slice may end within a slide") {
    val Code = """dev\.mullion\.windows\.spec\.TimeMath\.(\w+)\(ts, (\d+)L, (\d+)L\)""".r
    forAll(rules, anyTime) { case ((window, rules), ts) =>
      val assigner = new AlignedAssigner(rules, 0L)
      val ofCode = assigner.sliceCode("ts").map {
        case Code("floor", step, offset)     => TimeMath.floor(ts, step.toLong, offset.toLong)
        case Code("gridIndex", step, offset) => TimeMath.gridIndex(ts, step.toLong, offset.toLong)
        case other                           => fail(other)
      }
      val isWhole = !rules.numbersSlices || window.size % window.slide == 0
      assertEquals(ofCode, Option.when(isWhole)(assigner.slice(ts, 0L)))
    }
  }

  property("a row of windows by the calendar is late once its day has closed") {
    val day = 24L * 3600 * 1000000
    val zone = Gen.oneOf("UTC", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia")
    val near =
      Gen.choose(-10L, 10L).flatMap(d => Gen.oneOf(Gen.choose(0L, day), Gen.oneOf(-1L, 0L, 1L)).map(_ + d * day))
    forAll(zone, Gen.choose(0L, 20000L), near, near) { (zone, around, clock, row) =>
      val rules = AlignedRules(CalendarWindow.ofDays(1, zone), 0L, early = None, LatePolicy.Drop)
      val grid: SliceGrid = rules.grid
      val (before, ts) = (around * day + clock, around * day + row)
      val closed = grid.windowEnd(grid.windowAt(ts)) <= before
      assertEquals(new AlignedAssigner(rules, before).isLate(ts, 0L), closed)
    }
  }
}
