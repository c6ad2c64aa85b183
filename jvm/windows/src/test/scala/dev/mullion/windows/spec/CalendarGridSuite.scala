package dev.mullion.windows.spec

import java.time.temporal.ChronoUnit
import java.time.{DayOfWeek, Instant, LocalDate, ZoneId}

import scala.jdk.CollectionConverters._

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.WindowException

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
    slides <- Gen.oneOf(1, 1, 2, 7)
    offset <- Gen.oneOf(Gen.const(0L), Gen.choose(0L, 27 * day), Gen.oneOf(5L, 24L, 26L).map(_ * 3600 * second))
    start <- Gen.oneOf(DayOfWeek.values.toSeq)
    months <- Gen.choose(-12, 12)
    made <- Gen.oneOf(
      CalendarWindow.ofDays(n, in, slides, offset),
      CalendarWindow.ofWeeks(n, in, slides, start, offset),
      CalendarWindow.ofMonths(n, in, slides, months, offset)
    )
  } yield made

  /** From 1900 to 2100, mostly near a midnight. */
  private val time: Gen[Long] = for {
    days <- Gen.choose(-25567L, 47482L)
    near <- Gen.oneOf(Gen.choose(-3L * 3600 * second, 3L * 3600 * second), Gen.choose(0L, day), Gen.oneOf(-1L, 0L, 1L))
  } yield days * day + near

  private def date(window: CalendarWindow, ts: Long): LocalDate =
    Instant.EPOCH.plus(ts, ChronoUnit.MICROS).atZone(ZoneId.of(window.zone)).toLocalDate

  /** The first instant at or after a local time, found by trying the minutes after it. */
  private def instant(window: CalendarWindow, date: LocalDate): Long = {
    val local = date.atStartOfDay.plus(window.shift, ChronoUnit.MICROS)
    val rules = ZoneId.of(window.zone).getRules
    val there =
      Iterator.iterate(local)(_.truncatedTo(ChronoUnit.SECONDS).plusSeconds(1)).find(!rules.getValidOffsets(_).isEmpty)
    val offset = rules.getValidOffsets(there.get).asScala.maxBy(_.getTotalSeconds)
    ChronoUnit.MICROS.between(Instant.EPOCH, there.get.toInstant(offset))
  }

  /** The days on which windows around a day start, by the calendar alone. */
  private def starts(window: CalendarWindow, of: LocalDate): Seq[LocalDate] =
    if (window.months > 0) {
      val months = (of.getYear - 1970) * 12 + of.getMonthValue - 1 - window.first
      val at = Math.floorDiv(months, window.months) * window.months.toLong + window.first
      (-2 to 8).map(i => LocalDate.of(1970, 1, 1).plusMonths(at + i * window.months.toLong))
    } else {
      val from = LocalDate.ofEpochDay(window.first.toLong)
      val at = Math.floorDiv(ChronoUnit.DAYS.between(from, of), window.days.toLong) * window.days
      (-30 to 8).map(i => from.plusDays(at + i * window.days.toLong))
    }

  property("a row's window starts at the local time of its first day, and ends where a later one starts") {
    forAll(window, time) { (window, ts) =>
      val ascending = starts(window, date(window, ts)).map(instant(window, _))
      val start = ascending.filter(_ <= ts).last
      // A day that a place has skipped has no rows, and no length.
      assertEquals(window.lastStart(ts), start, s"$ts in ${window.describe}")
      val end = ascending(ascending.lastIndexOf(start) + window.slides)
      assertEquals(window.end(window.lastStart(ts)), end, s"$ts in ${window.describe}")
    }
  }

  test("weeks start on the day that is asked for, and years on a fiscal month") {
    def days(window: CalendarWindow, date: LocalDate) =
      starts(window, date).filter(start => !start.isAfter(date)).last
    DayOfWeek.values.foreach { day =>
      val first = days(CalendarWindow.ofWeeks(1, "UTC", start = day), LocalDate.of(2024, 5, 17))
      assertEquals(first.getDayOfWeek, day)
    }
    val fiscal = CalendarWindow.ofMonths(12, "UTC", offsetMonths = 3)
    assertEquals(days(fiscal, LocalDate.of(2024, 3, 31)), LocalDate.of(2023, 4, 1))
    assertEquals(days(fiscal, LocalDate.of(2024, 4, 1)), LocalDate.of(2024, 4, 1))
    intercept[WindowException](CalendarWindow.ofMonths(1, "UTC", offset = 28 * day))
    intercept[WindowException](CalendarWindow.ofMonths(1, "UTC", offset = -1))
  }

  property("windows follow one another, and clocks find those that have ended") {
    forAll(window, time) { (window, ts) =>
      val grid = window.grid
      val at = grid.windowAt(ts)
      assert(grid.windowStart(at) <= ts && ts < grid.windowEnd(at))
      assertEquals(grid.windowStart(at + window.slides), grid.windowEnd(at))
      assertEquals(grid.firstWindowEndingAfter(ts), at - window.slides + 1)
      assert(grid.windowEnd(grid.lastWindowEndingBy(ts)) <= ts)
      val slice = grid.ordinalOf(ts)
      (grid.firstWindow(slice) to grid.lastWindow(slice)).foreach { held =>
        assert(grid.windowStart(held) <= ts && ts < grid.windowEnd(held), s"$held")
        assert(grid.firstSlice(held) <= slice && slice <= grid.lastSlice(held), s"$held")
      }
      assert(grid.windowEnd(grid.firstWindow(slice) - 1) <= ts)
      if (window.slides == 1) assertEquals(window.startEndingBy(ts), grid.windowStart(at - 1))
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
    val refused = intercept[WindowException](CalendarWindow.ofDays(1, "New York"))
    assert(refused.getMessage.contains("'New York' is not a time zone"), refused.getMessage)
    intercept[WindowException](CalendarWindow.ofMonths(0, "UTC"))
  }

  test("descriptions of windows are unique") {
    val all = Seq(
      CalendarWindow.ofDays(7, "UTC") -> "tumbling 7 days by the calendar of UTC",
      CalendarWindow.ofWeeks(1, "UTC") -> "tumbling 1 week by the calendar of UTC",
      CalendarWindow.ofMonths(3, "UTC") -> "tumbling 3 months by the calendar of UTC",
      CalendarWindow.ofMonths(24, "America/New_York") -> "tumbling 2 years by the calendar of America/New_York",
      CalendarWindow.ofDays(1, "UTC", offset = 5 * 3600 * second) ->
        "tumbling 1 day by the calendar of UTC, offset 5 hours",
      CalendarWindow
        .ofWeeks(2, "UTC", start = DayOfWeek.SUNDAY) -> "tumbling 2 weeks by the calendar of UTC from Sunday",
      CalendarWindow.ofDays(1, "UTC", slides = 7) -> "sliding 7 days every 1 day by the calendar of UTC",
      CalendarWindow.ofMonths(12, "UTC", offsetMonths = 3, offset = 5 * day) ->
        "tumbling 1 year by the calendar of UTC, offset 3 months and 5 days"
    )
    all.foreach { case (window, words) => assertEquals(window.describe, words) }
  }
}
