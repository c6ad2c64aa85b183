package dev.mullion.windows.clock

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite

class IdleClockSuite extends PropertySuite {
  private val times = Gen.choose(0L, 4000000000000L)

  test("the clock includes the waiting time, and never passes the wall clock") {
    assertEquals(IdleClock(sinceMs = 100000, watermarkMs = 7000).at(nowMs = 130000), 37000L)
    assertEquals(IdleClock(sinceMs = 1000, watermarkMs = 900).at(2000), 1900L)
    assertEquals(IdleClock(sinceMs = 1000, watermarkMs = 5000).at(2000), 5000L)
  }

  property("it never moves back, nor past the later of the wall clock and its last value") {
    forAll(times, times, Gen.choose(0L, 1000000L)) { (since, watermark, passed) =>
      val idle = IdleClock(since, watermark)
      val now = since + passed
      val there = idle.at(now)
      assert(there >= watermark)
      assert(there <= Math.max(now, watermark))
      assert(idle.at(now + 1) >= there)
    }
  }
}
