package dev.mullion.windows.clock

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite

class StreamClockSuite extends PropertySuite {
  private def min(times: Seq[Long]): Long = times.min
  private def max(times: Seq[Long]): Long = times.max

  private def awake(watermark: Long): StreamClock = StreamClock(Some(watermark), Some(30), None)

  private def quiet(watermark: Option[Long], since: Long, from: Long): StreamClock =
    StreamClock(watermark, Some(30), Some(IdleClock(since, from)))

  private def reading(streams: Seq[StreamClock], now: Long, current: Long = 0): Long =
    StreamClock.reading(streams, min, now, current)

  test("a stream without rows holds the clock back until it is idle") {
    val streams = Seq(awake(1000), quiet(None, since = 2000, from = 0))
    assertEquals(reading(streams, now = 2029), 0L)
    assertEquals(reading(streams, now = 2030), 1000L)
  }

  test("a stream that may not be idle holds the clock back for ever") {
    val never = StreamClock(Some(5), None, Some(IdleClock(0, 5)))
    assertEquals(reading(Seq(awake(1000), never), now = 1000000), 5L)
  }

  test("of several streams that had rows last at the same time the furthest leads") {
    val streams = Seq(quiet(Some(1000), since = 5000, from = 1000), quiet(Some(4000), since = 5000, from = 4000))
    assertEquals(reading(streams, now = 5030), 4030L)
  }

  test("if all streams are idle, those that had rows last lead") {
    val streams = Seq(quiet(Some(1000), since = 5000, from = 1000), quiet(Some(4000), since = 3000, from = 4000))
    assertEquals(reading(streams, now = 5029), 1000L)
    assertEquals(reading(streams, now = 5030), 1030L)
  }

  test("a stream that never had rows does not lead") {
    assertEquals(reading(Seq(quiet(Some(1000), 5000, 1000), quiet(None, 6000, 0)), now = 6030), 2030L)
    assertEquals(reading(Seq(quiet(None, 5000, 700)), now = 5030), 730L)
  }

  test("with the policy of the maximum an idle stream does not lead") {
    assertEquals(StreamClock.reading(Seq(awake(10), quiet(Some(99), 0, 99)), max, 30, current = 0), 10L)
    assertEquals(StreamClock.reading(Seq(awake(10), quiet(Some(99), 1, 99)), max, 30, current = 0), 99L)
  }

  private val streams = Gen.listOfN(
    3,
    for {
      watermark <- Gen.option(Gen.choose(0L, 1000L))
      after <- Gen.option(Gen.choose(1L, 100L))
      since <- Gen.option(Gen.choose(0L, 1000L))
      from <- Gen.choose(watermark.getOrElse(0L), 1000L)
    } yield StreamClock(watermark, after, since.map(IdleClock(_, from)))
  )

  property("the clock never moves back, neither with time nor when a stream becomes idle") {
    forAll(streams, Gen.choose(0L, 1000L), Gen.choose(0L, 2000L), Gen.choose(0L, 2000L)) { (of, current, now, later) =>
      val first = reading(of, now, current)
      assert(first >= current)
      assert(reading(of, now + later, first) >= first)
    }
  }

  property("without idle streams it is Spark's watermark") {
    forAll(streams, Gen.choose(0L, 1000L), Gen.choose(0L, 2000L)) { (of, current, now) =>
      val none = of.map(_.copy(idleAfter = None))
      assertEquals(reading(none, now, current), Math.max(current, of.map(_.watermark.getOrElse(0L)).min))
    }
  }
}
