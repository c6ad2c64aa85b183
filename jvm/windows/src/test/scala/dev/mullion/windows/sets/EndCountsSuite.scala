package dev.mullion.windows.sets

import scala.util.Random

import dev.mullion.{MullionSuite, TestSeed}

class EndCountsSuite extends MullionSuite {
  private val second = 1000000L

  private def of(times: Long*): EndCounts = {
    val ends = new EndCounts
    times.foreach(ends.add(_))
    ends
  }

  test("times within a minute have an interval for each second, also those without times") {
    assertEquals(of().bars, (second, Nil))
    assertEquals(
      of(3 * second, 3 * second + 1, 5 * second).bars,
      (second, Seq(3 * second -> 2L, 4 * second -> 0L, 5 * second -> 1L))
    )
  }

  test("a longer range has wider intervals, unless few ends are much later") {
    val minutes = (0 until 50).map(_ * 60 * second)
    assertEquals(of(minutes: _*).bars, (60 * second, minutes.map(_ -> 1L)))
    val (width, bars) = of(minutes :+ 3000 * 60 * second: _*).bars
    assertEquals(width, 60 * second)
    assertEquals(bars.map(_._2), Seq.fill(50)(1L) ++ Seq.fill(9)(0L) :+ 1L)
    assertEquals(of(minutes ++ Seq.fill(10)(3000 * 60 * second): _*).bars._1, 3600 * second)
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
      val (width, bars) = parts.foldLeft(new EndCounts)(_.merge(_)).bars
      assertEquals(bars.map(_._2).sum, times.length.toLong)
      assert(clue(bars.length) <= EndCounts.Bars)
      // All but the last interval, which may contain later times.
      bars.init.foreach { case (from, number) =>
        assertEquals(number, times.count(time => time >= from && time < from + width).toLong)
      }
    }
  }

  test("the extremes of time are in the first and the last interval") {
    val (_, bars) = of(Long.MinValue + 1, 0L, Long.MaxValue).bars
    assertEquals(bars.map(_._2).sum, 3L)
    assert(clue(bars.length) <= EndCounts.Bars)
  }

  test(s"panes that close leave the counts of the others, also after the width has grown (seed ${TestSeed.value})") {
    val random = new Random(TestSeed.value)
    for (_ <- 0 until 100) {
      val range = Math.pow(10, 6 + random.nextInt(9)).toLong
      val times = Vector.fill(random.nextInt(2000))(random.nextLong(range))
      val (closed, open) = times.splitAt(random.nextInt(times.length + 1))
      val stored = EndCounts.fromBytes(of(times: _*).toBytes)
      val changes = new EndCounts
      random.shuffle(closed).foreach(changes.remove)
      val ends = EndCounts.fromBytes(stored.merge(changes).toBytes)
      assertEquals(ends.total, open.length.toLong)
      open.foreach(ends.remove)
      assert(ends.isEmpty)
      assertEquals(ends.toBytes.toSeq, new EndCounts().toBytes.toSeq)
    }
  }

  test("the size is bounded") {
    val ends = new EndCounts
    (0 until 100000).foreach(i => ends.add(i * 7777777L, 1000000L))
    assert(clue(ends.toBytes.length) < 2000)
  }
}
