package dev.mullion.windows.spec

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.sets.Naive

class SliceGridSuite extends PropertySuite {
  import Naive.clamp

  override def scalaCheckTestParameters = super.scalaCheckTestParameters.withMinSuccessfulTests(500)

  private val minute = 60L * 1000000L

  /** The windows that hold the slice of `t`, by the grid. */
  private def windowsOf(grid: SliceGrid, t: Long): Seq[BigInt] = {
    val slice = grid.ordinalOf(t)
    Iterator.iterate(BigInt(grid.firstWindow(slice)))(_ + 1).takeWhile(_ <= grid.lastWindow(slice)).toSeq
  }

  property("the windows of a row's slice are the windows that hold the row") {
    forAll(Naive.spec, Naive.time) { (spec, t) =>
      assertEquals(windowsOf(new EvenGrid(spec), t), new Naive(spec).holding(t))
    }
  }

  property("the windows of a row's slice are the windows that hold the row, at any time and of any length") {
    forAll(Naive.anyLength, Naive.anyTime) { (spec, t) =>
      assertEquals(windowsOf(new EvenGrid(spec), t), new Naive(spec).holding(t))
    }
  }

  property("the ordinal goes up by one at each window edge and nowhere else") {
    forAll(Naive.spec, Naive.time, Naive.time) { (spec, a, b) =>
      val (grid, from, to) = (new EvenGrid(spec), Math.min(a, b), Math.max(a, b))
      assertEquals(grid.ordinalOf(to) - grid.ordinalOf(from), new Naive(spec).edges(from, to).size.toLong)
    }
  }

  property("at any time and of any length, no window edge cuts a slice and every edge begins one") {
    forAll(Naive.anyLength, Naive.anyTime, Gen.choose(0L, 1000L)) { (spec, t, further) =>
      val (grid, naive) = (new EvenGrid(spec), new Naive(spec))
      val later = clamp(BigInt(t) + further)
      assertEquals(BigInt(grid.ordinalOf(later)) - grid.ordinalOf(t), BigInt(naive.edges(t, later).size))
    }
  }

  property("a window begins with its first slice and ends with its last") {
    forAll(Naive.spec, Naive.time) { (spec, t) =>
      val (grid, naive) = (new EvenGrid(spec), new Naive(spec))
      naive.around(t).foreach { k =>
        assertEquals(grid.firstSlice(k.toLong), grid.ordinalOf(naive.start(k).toLong), s"window $k of $spec")
        assertEquals(grid.lastSlice(k.toLong), grid.ordinalOf((naive.end(k) - 1).toLong), s"window $k of $spec")
      }
    }
  }

  property("a slice lies between the first and the last slice of a window iff the window holds it") {
    forAll(Naive.spec, Naive.time) { (spec, t) =>
      val (grid, naive) = (new EvenGrid(spec), new Naive(spec))
      val slice = grid.ordinalOf(t)
      val between = naive.around(t).filter(k => grid.firstSlice(k.toLong) <= slice && slice <= grid.lastSlice(k.toLong))
      assertEquals(between, naive.holding(t))
    }
  }

  property("at any time and of any length, the windows that hold a row have its slice between their first and last") {
    forAll(Naive.anyLength, Naive.anyTime) { (spec, t) =>
      val (grid, naive) = (new EvenGrid(spec), new Naive(spec))
      val slice = grid.ordinalOf(t)
      val between = naive.around(t).filter(k => grid.firstSlice(k.toLong) <= slice && slice <= grid.lastSlice(k.toLong))
      assertEquals(between, naive.holding(t))
    }
  }

  property("the window at a time is the last that starts at or before it") {
    forAll(Naive.anyLength, Naive.anyTime) { (spec, t) =>
      val naive = new Naive(spec)
      assertEquals(BigInt(new EvenGrid(spec).windowAt(t)), naive.around(t).filter(naive.start(_) <= t).max)
    }
  }

  property("a window starts where it is defined to, or at the end of time that it would start beyond") {
    forAll(Naive.anyLength, Naive.anyTime) { (spec, t) =>
      val (grid, naive) = (new EvenGrid(spec), new Naive(spec))
      naive
        .around(t)
        .foreach(k => assertEquals(grid.windowStart(k.toLong), clamp(naive.start(k)), s"window $k of $spec"))
    }
  }

  property("a window ends where it is defined to, or at the end of time, and is never longer than its size") {
    forAll(Naive.anyLength, Naive.anyTime) { (spec, t) =>
      val (grid, naive) = (new EvenGrid(spec), new Naive(spec))
      naive.around(t).foreach { k =>
        val end = grid.windowEnd(k.toLong)
        if (naive.start(k) >= Long.MinValue) assertEquals(end, clamp(naive.end(k)), s"window $k of $spec")
        assert(BigInt(end) - grid.windowStart(k.toLong) <= spec.size)
      }
    }
  }

  property("the start and the end of a window are the same by number and by time") {
    forAll(Naive.anyLength, Naive.anyTime) { (spec, t) =>
      val grid = new EvenGrid(spec)
      val window = grid.windowAt(t)
      assertEquals(grid.windowStart(window), spec.lastStart(t))
      assertEquals(grid.windowEnd(window), spec.end(spec.lastStart(t)))
    }
  }

  property("the first window that ends after a time is the first that does") {
    forAll(Naive.spec, Naive.time) { (spec, t) =>
      val naive = new Naive(spec)
      assertEquals(BigInt(new EvenGrid(spec).firstWindowEndingAfter(t)), naive.around(t).find(naive.end(_) > t).get)
    }
  }

  property("at any time and of any length, it is the first, whether it begins in time or before it") {
    forAll(Naive.anyLength, Naive.anyTime) { (spec, t) =>
      val naive = new Naive(spec)
      val first = naive.around(t).find(naive.end(_) > t)
      assertEquals(Some(BigInt(new EvenGrid(spec).firstWindowEndingAfter(t))), first)
    }
  }

  test("slices of a size that the slide divides are one to a slide") {
    val grid = new EvenGrid(AlignedWindow.sliding(60 * minute, 5 * minute))
    assertEquals(grid.ordinalOf(60 * minute) - grid.ordinalOf(0), 12L)
  }

  test("slices of a size that the slide does not divide are two to a slide, however awkward the two are") {
    // Slices by the greatest common divisor would be one microsecond long.
    val grid = new EvenGrid(AlignedWindow.sliding(60 * minute, 7 * minute + 1))
    assertEquals(grid.ordinalOf(10 * (7 * minute + 1)) - grid.ordinalOf(0), 20L)
  }

  test("before all windows is before all slices") {
    Seq(AlignedWindow.sliding(5, 2), AlignedWindow.sliding(6, 2)).foreach { spec =>
      assertEquals(new EvenGrid(spec).firstSlice(Long.MinValue), Long.MinValue, spec.describe)
    }
  }
}
