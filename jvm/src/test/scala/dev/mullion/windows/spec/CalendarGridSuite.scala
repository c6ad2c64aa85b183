package dev.mullion.windows.spec

import java.time.{Instant, LocalDate, ZoneId}
import java.time.temporal.ChronoUnit

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.{MullionException, PropertySuite}

class CalendarGridSuite extends PropertySuite {
  private val second = 1000000L
  private val day = 86400L * second

  private val zone = Gen.oneOf(
    "America/New_York",
    "Europe/Berlin",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
    "Pacific/Apia",
    "Africa/Monrovia",
    "Australia/Lord_Howe",
    "UTC",
    "+05:30"
  )

  private val window: Gen[CalendarWindow] = for {
    in <- zone
    n <- Gen.oneOf(1, 1, 1, 2, 3, 10)
    made <- Gen.oneOf(CalendarWindow.ofDays _, CalendarWindow.ofWeeks _, CalendarWindow.ofMonths _)
  } yield made(n, in)

  /** From 1900 to 2100, mostly near a midnight. */
  private val time: Gen[Long] = for {
    days <- Gen.choose(-25567L, 47482L)
    near <- Gen.oneOf(Gen.choose(-3L * 3600 * second, 3L * 3600 * second), Gen.choose(0L, day), Gen.oneOf(-1L, 0L, 1L))
  } yield days * day + near

  private def date(window: CalendarWindow, ts: Long): LocalDate =
    Instant.EPOCH.plus(ts, ChronoUnit.MICROS).atZone(ZoneId.of(window.zone)).toLocalDate

  private def midnight(window: CalendarWindow, date: LocalDate): Long =
    ChronoUnit.MICROS.between(Instant.EPOCH, date.atStartOfDay(ZoneId.of(window.zone)).toInstant)

  /** The first day of the window that holds a day, by the calendar alone. */
  private def firstDay(window: CalendarWindow, of: LocalDate): LocalDate =
    if (window.months > 0) {
      val months = (of.getYear - 1970) * 12 + of.getMonthValue - 1
      LocalDate.of(1970, 1, 1).plusMonths(Math.floorDiv(months, window.months) * window.months.toLong)
    } else {
      val from = if (window.first == 0) LocalDate.of(1970, 1, 1) else LocalDate.of(1969, 12, 29)
      val days = ChronoUnit.DAYS.between(from, of)
      from.plusDays(Math.floorDiv(days, window.days.toLong) * window.days)
    }

  property("a row's window goes from midnight of its first day to midnight after its last, by the calendar") {
    forAll(window, time) { (window, ts) =>
      val first = firstDay(window, date(window, ts))
      val next = if (window.months > 0) first.plusMonths(window.months) else first.plusDays(window.days)
      // A day that a place has skipped has no rows, and no length.
      assertEquals(window.lastStart(ts), midnight(window, first), s"$ts in ${window.describe}")
      assertEquals(window.end(window.lastStart(ts)), midnight(window, next), s"$ts in ${window.describe}")
    }
  }

  property("windows follow one another, and clocks find those that have ended") {
    forAll(window, time) { (window, ts) =>
      val grid = window.grid
      val at = grid.windowAt(ts)
      assert(grid.windowStart(at) <= ts && ts < grid.windowEnd(at))
      assertEquals(grid.windowStart(at + 1), grid.windowEnd(at))
      assertEquals(grid.firstWindowEndingAfter(ts), at)
      assertEquals(grid.firstWindowEndingAfter(grid.windowStart(at)), at)
      assert(grid.windowEnd(grid.lastWindowEndingBy(ts)) <= ts)
      assertEquals(window.startEndingBy(ts), grid.windowStart(at - 1))
    }
  }

  property("times at the ends of their range neither wrap nor fail") {
    forAll(window, Gen.oneOf(Long.MinValue, Long.MinValue + 1, Long.MaxValue - 1, Long.MaxValue)) { (window, ts) =>
      val start = window.lastStart(ts)
      assert(start <= ts, s"$ts in ${window.describe}")
      assert(window.end(start) >= ts, s"$ts in ${window.describe}")
      Seq(Long.MinValue, Long.MinValue + 1, Long.MaxValue - 1, Long.MaxValue).foreach { number =>
        assert(Set(Long.MinValue, Long.MaxValue)(window.grid.windowStart(number)), s"window $number")
        assert(Set(Long.MinValue, Long.MaxValue)(window.grid.windowEnd(number)), s"window $number")
      }
    }
  }

  test("a row whose windows are known allocates nothing") {
    val window = CalendarWindow.ofDays(1, "America/New_York")
    val threads = java.lang.management.ManagementFactory.getThreadMXBean.asInstanceOf[com.sun.management.ThreadMXBean]
    val id = Thread.currentThread.getId
    var sum = 0L
    def rows(): Long = {
      val before = threads.getThreadAllocatedBytes(id)
      var i = 0
      while (i < 100000) {
        // Alternates between two days.
        sum += window.lastStart(954651600L * second + (if (i % 2 == 0) -1 else i))
        i += 1
      }
      threads.getThreadAllocatedBytes(id) - before
    }
    rows()
    assert(rows() < 10000, "100,000 rows of known days")
    assert(sum != 0)
  }

  test("an unknown time zone is rejected with a known one") {
    val refused = intercept[MullionException](CalendarWindow.ofDays(1, "New York"))
    assert(refused.getMessage.contains("timezone='New York' is not a time zone"), refused.getMessage)
    intercept[MullionException](CalendarWindow.ofMonths(0, "UTC"))
  }

  test("descriptions of windows are unique") {
    val all = Seq(
      CalendarWindow.ofDays(7, "UTC") -> "tumbling 7 days by the calendar of UTC",
      CalendarWindow.ofWeeks(1, "UTC") -> "tumbling 1 week by the calendar of UTC",
      CalendarWindow.ofMonths(3, "UTC") -> "tumbling 3 months by the calendar of UTC",
      CalendarWindow.ofMonths(24, "America/New_York") -> "tumbling 2 years by the calendar of America/New_York"
    )
    all.foreach { case (window, words) => assertEquals(window.describe, words) }
  }
}
