package dev.mullion.windows.clock

import scala.util.Random

import dev.mullion.{MullionSuite, TestSeed}

class DueHistogramSuite extends MullionSuite {
  private val second = 1000000L

  private def of(times: Long*): DueHistogram = {
    val histogram = new DueHistogram
    times.foreach(histogram.add(_))
    histogram
  }

  test("times within a minute have an interval for each second, also those without times") {
    assertEquals(of().bars, (second, Nil))
    assertEquals(
      of(3 * second, 3 * second + 1, 5 * second).bars,
      (second, Seq(3 * second -> 2L, 4 * second -> 0L, 5 * second -> 1L))
    )
  }

  test("a longer range has wider intervals") {
    val minutes = (0 until 50).map(_ * 60 * second)
    assertEquals(of(minutes: _*).bars, (60 * second, minutes.map(_ -> 1L)))
    assertEquals(of(minutes :+ 3000 * 60 * second: _*).bars._1, 3600 * second)
  }

  test("times before the epoch are in the intervals that contain them") {
    assertEquals(of(-1L).bars, (second, Seq(-second -> 1L)))
  }

  test(s"each time is counted once, in any order and any number of parts (seed ${TestSeed.value})") {
    val random = new Random(TestSeed.value)
    for (_ <- 0 until 200) {
      val range = Math.pow(10, 1 + random.nextInt(17)).toLong
      val times = Seq.fill(1 + random.nextInt(2000))(random.nextLong(range) - range / 2)
      val parts = times.grouped(1 + random.nextInt(times.length)).map(part => of(part: _*)).toSeq
      val (width, bars) = parts.foldLeft(new DueHistogram)(_.merge(_)).bars
      assertEquals(bars.map(_._2).sum, times.length.toLong)
      assert(clue(bars.length) <= DueHistogram.Bars)
      // All but the last interval, which may contain later times.
      bars.init.foreach { case (from, number) =>
        assertEquals(number, times.count(time => time >= from && time < from + width).toLong)
      }
    }
  }

  test("the extremes of time are in the first and the last interval") {
    val (_, bars) = of(Long.MinValue + 1, 0L, Long.MaxValue).bars
    assertEquals(bars.map(_._2).sum, 3L)
    assert(clue(bars.length) <= DueHistogram.Bars)
  }
}
