package dev.mullion.windows.spec

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.sets.Naive

class TimeMathSuite extends PropertySuite {
  import Naive.{anyTime, clamp}

  override def scalaCheckTestParameters = super.scalaCheckTestParameters.withMinSuccessfulTests(1000)

  private val anyFactor = Gen.oneOf(anyTime, Gen.choose(-5000000000L, 5000000000L), Gen.choose(-1000L, 1000L))

  property("a sum is the sum, or the end of time that it lies beyond") {
    forAll(anyTime, anyTime)((a, b) => assertEquals(TimeMath.plus(a, b), clamp(BigInt(a) + b)))
  }

  property("a difference is the difference, or the end of time that it lies beyond") {
    forAll(anyTime, anyTime)((a, b) => assertEquals(TimeMath.minus(a, b), clamp(BigInt(a) - b)))
  }

  property("a product is the product, or the end of time that it lies beyond") {
    forAll(anyFactor, anyFactor)((a, b) => assertEquals(TimeMath.times(a, b), clamp(BigInt(a) * b)))
  }

  test("the ends of time, added, subtracted and multiplied with one another, stay in time") {
    val ends = Seq(Long.MinValue, Long.MinValue + 1, -1L, 0L, 1L, Long.MaxValue - 1, Long.MaxValue)
    for (a <- ends; b <- ends) {
      assertEquals(TimeMath.plus(a, b), clamp(BigInt(a) + b), s"$a + $b")
      assertEquals(TimeMath.minus(a, b), clamp(BigInt(a) - b), s"$a - $b")
      assertEquals(TimeMath.times(a, b), clamp(BigInt(a) * b), s"$a * $b")
    }
  }

  property("the floor of a time is the last grid point that is not after it") {
    forAll(Naive.spec, Naive.time) { (spec, t) =>
      val naive = new Naive(spec)
      val points = naive.around(t).map(naive.start)
      assertEquals(TimeMath.floor(t, spec.slide, spec.offset), points.filter(_ <= t).max.toLong)
    }
  }

  property("a time and how far it is past the grid give the floor, at the ends of time too") {
    forAll(Naive.anyLength, anyTime) { (spec, t) =>
      val past = TimeMath.pastGrid(t, spec.slide, spec.offset)
      assert(0 <= past && past < spec.slide, s"$past is not in a step of ${spec.slide}")
      assertEquals((BigInt(t) - past - spec.offset).mod(spec.slide), BigInt(0))
      assertEquals(TimeMath.floor(t, spec.slide, spec.offset), clamp(BigInt(t) - past))
    }
  }

  property("milliseconds go to microseconds and back") {
    forAll(Gen.choose(Long.MinValue / 1000, Long.MaxValue / 1000)) { ms =>
      assertEquals(TimeMath.toMillis(TimeMath.fromMillis(ms)), ms)
    }
  }

  property("microseconds go to the millisecond that has begun, before the epoch too") {
    forAll(anyTime) { us =>
      val ms = BigInt(TimeMath.toMillis(us))
      assert(ms * 1000 <= us && us < (ms + 1) * 1000, s"$us is not in millisecond $ms")
    }
  }

  property("milliseconds that microseconds cannot express become the end of time") {
    forAll(anyTime)(ms => assertEquals(TimeMath.fromMillis(ms), clamp(BigInt(ms) * 1000)))
  }
}
