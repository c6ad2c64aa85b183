package dev.mullion.windows.spec

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.sets.Naive

class WindowsAtSuite extends PropertySuite {
  import Naive.clamp

  override def scalaCheckTestParameters = super.scalaCheckTestParameters.withMinSuccessfulTests(500)

  private val anySpec = Gen.oneOf(Naive.spec, Naive.anyLength)

  property("the windows of a time are those that hold it, in order") {
    forAll(anySpec, Naive.anyTime) { (spec, t) =>
      val (at, naive) = (new WindowsAt(spec), new Naive(spec))
      val starts = naive.holding(t).map(k => clamp(naive.start(k)))
      assertEquals((0L until at.count(t)).map(at.start(t, _)), starts)
      assertEquals(at.holds(t), starts.nonEmpty)
    }
  }

  property("of the slice of a time, no edge is inside, and there is one at either end") {
    forAll(anySpec, Naive.anyTime) { (spec, t) =>
      val (at, naive) = (new WindowsAt(spec), new Naive(spec))
      if (at.holds(t)) {
        val edges = naive.around(t).flatMap(k => Seq(naive.start(k), naive.end(k)))
        assertEquals(at.sliceStart(t), clamp(edges.filter(_ <= t).max))
        assertEquals(at.sliceEnd(t), clamp(edges.filter(_ > t).min))
      }
    }
  }

  property("times of one slice are in the same windows, as in the grid") {
    forAll(Naive.spec, Naive.time, Naive.time) { (spec, a, b) =>
      val (at, grid) = (new WindowsAt(spec), new EvenGrid(spec))
      if (at.holds(a) && at.holds(b))
        assertEquals(at.sliceStart(a) == at.sliceStart(b), grid.ordinalOf(a) == grid.ordinalOf(b))
    }
  }
}
