package dev.mullion.windows.rules

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.WindowException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.sets.Naive
import dev.mullion.windows.spec.Duration

class EarlyFiringSuite extends PropertySuite {

  private val early = EarlyFiring(every = 10, unchanged = false)

  private def withRows(now: Long, wall: Long) = BatchClock(before = 0, now, wall, rowsCame = true)

  private def withoutRows(now: Long, wall: Long) = withRows(now, wall).copy(rowsCame = false)

  property("an interval that is not positive is rejected with the value and the fix") {
    forAll(Gen.oneOf(Gen.const(0L), Gen.choose(Long.MinValue, 0L), Gen.choose(-100L, 0L))) { every =>
      val refused = intercept[WindowException](EarlyFiring(every, unchanged = false))
      assertEquals(refused.condition, "INVALID_ARGUMENT")
      assert(refused.getMessage.contains(s"interval is ${Duration.describe(every)}:"), refused.getMessage)
      assert(refused.getMessage.contains("Early.every(\"1 minute\")"), refused.getMessage)
    }
  }

  test("a pane fires when event time has moved by exactly the interval") {
    assert(!early.isDue(eventReading = 100, wallReading = 0, withRows(now = 109, wall = 0)))
    assert(early.isDue(eventReading = 100, wallReading = 0, withRows(now = 110, wall = 0)))
  }

  test("a pane that opened before the clock's first reading counts from it") {
    def at(now: Long) = withRows(now, wall = 0).copy(firstReading = 1000)
    assert(!early.isDue(eventReading = 0, wallReading = 0, at(1009)))
    assert(early.isDue(eventReading = 0, wallReading = 0, at(1010)))
    assert(early.isDue(eventReading = 1005, wallReading = 0, at(1015)))
    assert(!early.isDue(eventReading = 1005, wallReading = 0, at(1014)))
    val before = withRows(now = 0, wall = 0).copy(firstReading = Long.MaxValue)
    assert(!early.isDue(eventReading = 0, wallReading = 0, before))
    assertEquals(early.eventDue(0, before), Long.MaxValue, "no batch runs for it")
  }

  test("while rows come, wall time fires nothing, however much of it has passed") {
    assert(!early.isDue(eventReading = 100, wallReading = 0, withRows(now = 109, wall = 1000000)))
  }

  test("in a batch without rows wall time counts") {
    assert(!early.isDue(eventReading = 100, wallReading = 50, withoutRows(now = 100, wall = 59)))
    assert(early.isDue(eventReading = 100, wallReading = 50, withoutRows(now = 100, wall = 60)))
  }

  test("in a batch without rows event time counts too, for the rows before may have moved it") {
    assert(early.isDue(eventReading = 100, wallReading = 50, withoutRows(now = 110, wall = 50)))
  }

  test("in the batch with which the input ends nothing fires early, for all closes") {
    assert(!early.isDue(eventReading = 100, wallReading = 0, withRows(now = 110, wall = 0).copy(inputEnds = true)))
    assert(!early.isDue(eventReading = 0, wallReading = 50, withoutRows(now = 0, wall = 60).copy(inputEnds = true)))
  }

  property("an interval from any reading, at the end of time too, is due when the clock has moved by it") {
    forAll(Naive.anyTime, Gen.choose(1L, Long.MaxValue), Naive.anyTime.suchThat(_ < Long.MaxValue)) {
      (reading, every, now) =>
        val moved = BigInt(now) - reading >= every
        val firing = EarlyFiring(every, unchanged = false)
        assertEquals(firing.isDue(reading, Long.MaxValue, withRows(now, now)), moved, "event")
        assertEquals(firing.isDue(Long.MaxValue, reading, withoutRows(now, now)), moved, "wall")
    }
  }

  test("early firings read as people say them") {
    assertEquals(EarlyFiring(60000000, unchanged = false).describe, "fires early every 1 minute if changed")
    assertEquals(EarlyFiring(60000000, unchanged = true).describe, "fires early every 1 minute while open")
    assertEquals(
      EarlyFiring(60000000, unchanged = false, byWall = true).describe,
      "fires early every 1 minute by the wall clock if changed"
    )
  }
}
