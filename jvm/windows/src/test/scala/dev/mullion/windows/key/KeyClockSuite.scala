package dev.mullion.windows.key

import scala.util.Random

import dev.mullion.{MullionSuite, TestSeed}

/** The clock of a key that follows the wall clock between rows. */
class KeyClockSuite extends MullionSuite {

  test("a clock continues with the wall clock from the row that moved it last") {
    val clock = KeyClock.ofKey(delay = 5L, now = 0L, wall = Some(100L), lateBehind = true)
    clock.see(20L)
    assertEquals(clock.now, 15L)
    clock.advance(103L)
    assertEquals(clock.now, 18L)
    assert(!clock.see(22L), "the row's time less the delay is behind the clock")
    assert(clock.isAhead(17L) && !clock.isAhead(18L))
    assertEquals(clock.whenDue(25L), 110L)
  }

  test("a wall clock that goes back does not count twice") {
    val clock = KeyClock.ofKey(delay = 0L, now = 10L, wall = Some(100L), lateBehind = true)
    Seq(104L, 90L, 104L, 106L).foreach(clock.advance)
    assertEquals(clock.now, 16L)
    assertEquals(clock.wallReading, Some(106L))
  }

  test(
    "the reading is the latest row's time less the delay, plus the wall time since, in any order of rows and readings"
  ) {
    val random = new Random(TestSeed.value)
    for (_ <- 1 to 500) {
      val delay = random.nextInt(6).toLong
      val clock = KeyClock.ofKey(delay, now = Long.MinValue + 1, wall = Some(0L), lateBehind = true)
      var (wall, readings) = (0L, Seq.empty[(Long, Long)])
      for (_ <- 1 to 30) {
        if (random.nextBoolean()) {
          val ts = random.nextInt(50).toLong
          val after = clock.after(ts)
          clock.see(ts)
          assertEquals(clock.now, after)
          readings :+= ((ts - delay, wall))
        } else {
          wall += random.nextInt(4)
          clock.advance(wall)
        }
        val expected = readings.map { case (time, at) => time + wall - at }.maxOption
        expected.foreach(assertEquals(clock.now, _))
      }
    }
  }
}
