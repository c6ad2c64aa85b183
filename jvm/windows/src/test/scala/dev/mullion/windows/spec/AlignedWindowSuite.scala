package dev.mullion.windows.spec

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.WindowException
import dev.mullion.windows.sets.Naive

class AlignedWindowSuite extends PropertySuite {

  private val second = 1000000L

  private def refusal(spec: => AlignedWindow): WindowException = {
    val refused = intercept[WindowException](spec)
    assertEquals(refused.condition, "INVALID_ARGUMENT")
    refused
  }

  test("a window of no length is rejected with the value and the fix") {
    val message = refusal(AlignedWindow.tumbling(0)).getMessage
    assert(message.contains("size is 0 seconds"), message)
    assert(message.contains("such as size = \"10 seconds\""), message)
  }

  test("a window of negative length is rejected with the value and the fix") {
    val message = refusal(AlignedWindow.sliding(-10 * second, second)).getMessage
    assert(message.contains("size is -10 seconds"), message)
    assert(message.contains("such as size = \"10 seconds\""), message)
  }

  test("a slide of zero is rejected, and named as the slide") {
    val message = refusal(AlignedWindow.sliding(second, 0)).getMessage
    assert(message.contains("slide is 0 seconds"), message)
    assert(message.contains("such as slide = \"10 seconds\""), message)
  }

  property("every length that is not positive is rejected, and its message names it") {
    forAll(Gen.oneOf(Gen.choose(Long.MinValue, 0L), Gen.choose(-1000L, 0L), Gen.const(Long.MinValue))) { us =>
      assert(refusal(AlignedWindow.tumbling(us)).getMessage.contains(s"size is ${Duration.describe(us)}"))
      assert(refusal(AlignedWindow.sliding(1, us)).getMessage.contains(s"slide is ${Duration.describe(us)}"))
    }
  }

  test("tumbling windows are sliding windows that slide by their size") {
    assertEquals(AlignedWindow.tumbling(10, 3), AlignedWindow.sliding(10, 10, 3))
  }

  property("offsets that differ by multiples of the slide, negative ones too, give the same windows") {
    forAll(Naive.spec, Gen.choose(-10L, 10L)) { (spec, slides) =>
      assertEquals(AlignedWindow.sliding(spec.size, spec.slide, spec.offset + slides * spec.slide), spec)
      assert(0 <= spec.offset && spec.offset < spec.slide)
    }
  }

  property("windows overlap iff some time is in two of them") {
    forAll(Naive.spec) { spec =>
      val naive = new Naive(spec)
      val most = (0L until spec.slide).map(t => naive.holding(t).size).max
      assertEquals(spec.overlaps, most > 1)
    }
  }

  property("windows have gaps iff some time is in none of them") {
    forAll(Naive.spec) { spec =>
      val naive = new Naive(spec)
      assertEquals(spec.hasGaps, (0L until spec.slide).exists(t => naive.holding(t).isEmpty))
    }
  }

  property("the last start is that of the last window that starts at or before a time") {
    forAll(Naive.spec, Naive.time) { (spec, t) =>
      val naive = new Naive(spec)
      assertEquals(spec.lastStart(t), naive.around(t).map(naive.start).filter(_ <= t).max.toLong)
    }
  }

  property("a row exactly at the end of a tumbling window is in the next one") {
    forAll(Naive.spec, Naive.time) { (any, t) =>
      val spec = AlignedWindow.tumbling(any.size, any.offset)
      val start = spec.lastStart(t)
      assertEquals(spec.lastStart(spec.end(start) - 1), start)
      assertEquals(spec.lastStart(spec.end(start)), spec.end(start))
    }
  }

  test("a window that would end past the end of time ends there") {
    val hour = AlignedWindow.tumbling(3600 * second)
    assertEquals(hour.end(hour.lastStart(Long.MaxValue)), Long.MaxValue)
  }

  test("a window that would start before the beginning of time starts there") {
    val hour = AlignedWindow.tumbling(3600 * second)
    assertEquals(hour.lastStart(Long.MinValue), Long.MinValue)
  }

  test("a spec reads as people say it") {
    assertEquals(AlignedWindow.tumbling(10 * second).describe, "tumbling 10 seconds")
    assertEquals(AlignedWindow.tumbling(60 * second, 5 * second).describe, "tumbling 1 minute, offset 5 seconds")
    assertEquals(AlignedWindow.sliding(60 * second, second).describe, "sliding 1 minute every 1 second")
    assertEquals(
      AlignedWindow.sliding(60 * second, 2 * second, -second).describe,
      "sliding 1 minute every 2 seconds, offset 1 second"
    )
  }
}
