package dev.mullion.windows.rules

import dev.mullion.MullionSuite
import dev.mullion.windows.rules.AsOfDirection.{Backward, Forward, Nearest}

class AsOfRulesSuite extends MullionSuite {
  private def rules(direction: AsOfDirection, tolerance: Option[Long], allowExact: Boolean = true) =
    AsOfRules(direction, tolerance, allowExact)

  test("a left row is due at its own time, or once its tolerance has passed") {
    assertEquals(rules(Backward, Some(5)).due(10), 10L)
    assertEquals(rules(Forward, Some(5)).due(10), 15L)
    assertEquals(rules(Nearest, Some(5)).due(10), 15L)
  }

  test("a right row is needless once the last left row that it can match is due") {
    for {
      direction <- AsOfDirection.all
      tolerance <- 0L to 4L
      exact <- Seq(true, false)
      right <- -3L to 3L
    } {
      val of = rules(direction, Some(tolerance), exact)
      def matches(left: Long) = {
        val distance = right - left
        val isAhead = direction match {
          case Backward => distance <= 0
          case Forward  => distance >= 0
          case Nearest  => true
        }
        isAhead && Math.abs(distance) <= tolerance
      }
      val last = (right - 10 to right + 10).filter(matches).map(of.due).max
      assertEquals(of.needless(right), Some(last), s"$of of $right")
    }
  }

  test("without a tolerance a right row is always needed, and reaches any later row") {
    assertEquals(rules(Backward, None).needless(3), None)
    assert(rules(Backward, None).reaches(Long.MinValue, Long.MaxValue))
    intercept[IllegalArgumentException](rules(Forward, None))
  }

  test("ranges include the tolerance, and equal times if these match") {
    val exact = rules(Nearest, Some(5))
    assertEquals((exact.first(10), exact.endBehind(10), exact.startAhead(10), exact.endAhead(10)), (5L, 11L, 10L, 16L))
    val strict = rules(Nearest, Some(5), allowExact = false)
    assertEquals((strict.endBehind(10), strict.startAhead(10)), (10L, 11L))
    assert(exact.reaches(5, 10) && !exact.reaches(4, 10))
  }

  test("times at the ends of the range do not wrap") {
    assertEquals(rules(Nearest, Some(Long.MaxValue)).needless(Long.MaxValue), Some(Long.MaxValue))
    assertEquals(rules(Forward, Some(Long.MaxValue)).due(1), Long.MaxValue)
    assertEquals(rules(Backward, Some(Long.MaxValue)).first(Long.MinValue), Long.MinValue)
  }

  test("no later output is older than the output watermark") {
    assertEquals(rules(Backward, None).outputWatermark(10), 10L)
    assertEquals(rules(Nearest, Some(4)).outputWatermark(10), 6L)
    assertEquals(rules(Nearest, Some(4)).outputWatermark(1), 0L)
  }
}
