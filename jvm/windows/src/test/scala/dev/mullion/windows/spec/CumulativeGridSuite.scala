package dev.mullion.windows.spec

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.WindowException

class CumulativeGridSuite extends PropertySuite {
  private val window: Gen[CumulativeWindow] = for {
    step <- Gen.choose(1L, 10L)
    steps <- Gen.choose(1L, 8L)
    offset <- Gen.choose(-100L, 100L)
  } yield CumulativeWindow(step * steps, step, offset)

  private val time = Gen.choose(-200L, 200L)

  /** The windows that hold `t`, by their definition: start and end, in order of their ends. */
  private def holding(window: CumulativeWindow, t: Long): Seq[(Long, Long)] = {
    val start = Math.floorDiv(t - window.offset, window.size) * window.size + window.offset
    (1L to window.size / window.step).map(n => (start, start + n * window.step)).filter(_._2 > t)
  }

  private def windowsOf(grid: SliceGrid, slice: Long): Seq[(Long, Long)] =
    (grid.firstWindow(slice) to grid.lastWindow(slice)).map(w => (grid.windowStart(w), grid.windowEnd(w)))

  property("the windows of a row's slice are the windows of its cycle that end after it") {
    forAll(window, time) { (window, t) =>
      assertEquals(windowsOf(window.grid, window.grid.ordinalOf(t)), holding(window, t), window.describe)
    }
  }

  property("a window holds the slices from the start of its cycle to its end") {
    forAll(window, time, time) { (window, t, other) =>
      val grid = window.grid
      val slice = grid.ordinalOf(other)
      val (w, start) = (grid.windowAt(t), grid.windowStart(grid.windowAt(t)))
      assertEquals(w, grid.lastWindow(grid.ordinalOf(t)))
      assertEquals(
        grid.firstSlice(w) <= slice && slice <= grid.lastSlice(w),
        start <= other && other < grid.windowEnd(w)
      )
    }
  }

  property("the windows in order of number are in order of their ends, and clocks find those that have ended") {
    forAll(window, time) { (window, t) =>
      val grid = window.grid
      val first = grid.firstWindowEndingAfter(t)
      assert(grid.windowEnd(first) > t && grid.windowEnd(first - 1) <= t, window.describe)
      assertEquals(grid.windowEnd(first), grid.windowEnd(first - 1) + window.step)
    }
  }

  property("times at the ends of their range neither wrap nor fail") {
    forAll(window, Gen.oneOf(Long.MinValue, Long.MinValue + 1, Long.MaxValue - 1, Long.MaxValue)) { (window, t) =>
      val grid = window.grid
      windowsOf(grid, grid.ordinalOf(t)).foreach { case (start, end) =>
        assert(start <= t && t <= end, s"[$start, $end)")
      }
      assert(grid.windowEnd(grid.firstWindowEndingAfter(t)) >= t)
    }
  }

  test("a step that does not divide the size is an error") {
    val error = intercept[WindowException](CumulativeWindow(10, 3))
    assert(error.getMessage.contains("does not divide its size"), error.getMessage)
    intercept[WindowException](CumulativeWindow(10, 0))
    intercept[WindowException](CumulativeWindow(0, 1))
  }
}
