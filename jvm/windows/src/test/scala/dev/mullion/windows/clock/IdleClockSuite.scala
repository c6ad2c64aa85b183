package dev.mullion.windows.clock

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite

class IdleClockSuite extends PropertySuite {
  private val times = Gen.choose(0L, 4000000000000L)

  test("the clock does not move until the source has been empty long enough, then includes the waiting time") {
    val idle = IdleClock(sinceMs = 100000, watermarkMs = 7000)
    assertEquals(idle.at(nowMs = 129999, current = 7000, idleAfterMs = 30000), 7000L)
    assertEquals(idle.at(nowMs = 130000, current = 7000, idleAfterMs = 30000), 37000L)
  }

  test("it never passes the wall clock") {
    assertEquals(IdleClock(sinceMs = 1000, watermarkMs = 900).at(2000, 900, 10), 1900L)
    assertEquals(IdleClock(sinceMs = 1000, watermarkMs = 5000).at(2000, 5000, 10), 5000L)
  }

  property("it never moves back, nor past the later of the wall clock and its last value") {
    forAll(times, times, Gen.choose(0L, 1000000L), Gen.choose(1L, 1000000L)) { (since, watermark, passed, after) =>
      val idle = IdleClock(since, watermark)
      val now = since + passed
      val there = idle.at(now, watermark, after)
      assert(there >= watermark)
      assert(there <= Math.max(now, watermark))
      assert(idle.at(now + 1, there, after) >= there)
    }
  }
}
