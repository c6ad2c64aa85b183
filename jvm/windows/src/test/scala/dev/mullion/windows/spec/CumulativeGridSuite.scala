package dev.mullion.windows.spec

import java.time.{Instant, ZoneId}

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite
import dev.mullion.windows.WindowException

class CumulativeGridSuite extends PropertySuite {
  private val window: Gen[CumulativeWindow] = for {
    step <- Gen.choose(1L, 10L)
    steps <- Gen.choose(1L, 8L)
    offset <- Gen.choose(-100L, 100L)
  } yield CumulativeWindow(step * steps, step, offset)

  private val time = Gen.choose(-200L, 200L)

  /** The windows that hold `t`, by their definition: start and end, in order of their ends. */
  private def holding(window: CumulativeWindow, t: Long): Seq[(Long, Long)] = {
    val (size, step, offset) = (window.cycles, window.steps) match {
      case (AlignedWindow(size, _, offset), AlignedWindow(step, _, _)) => (size, step, offset)
      case other                                                       => fail(s"no fixed lengths: $other")
    }
    val start = Math.floorDiv(t - offset, size) * size + offset
    (1L to size / step).map(n => (start, start + n * step)).filter(_._2 > t)
  }

  private def windowsOf(grid: SliceGrid, slice: Long): Seq[(Long, Long)] =
    (grid.firstWindow(slice) to grid.lastWindow(slice)).map(w => (grid.windowStart(w), grid.windowEnd(w)))

  property("the windows of a row's slice are the windows of its cycle that end after it") {
    forAll(window, time) { (window, t) =>
      assertEquals(windowsOf(window.grid, window.grid.ordinalOf(t)), holding(window, t), window.describe)
    }
  }

  property("a window holds the slices from the start of its cycle to its end") {
    forAll(window, time, time) { (window, t, other) =>
      val grid = window.grid
      val slice = grid.ordinalOf(other)
      val (w, start) = (grid.windowAt(t), grid.windowStart(grid.windowAt(t)))
      assertEquals(w, grid.lastWindow(grid.ordinalOf(t)))
      assertEquals(
        grid.firstSlice(w) <= slice && slice <= grid.lastSlice(w),
        start <= other && other < grid.windowEnd(w)
      )
    }
  }

  property("the windows in order of number are in order of their ends, and clocks find those that have ended") {
    forAll(window, time) { (window, t) =>
      val grid = window.grid
      val first = grid.firstWindowEndingAfter(t)
      assert(grid.windowEnd(first) > t && grid.windowEnd(first - 1) <= t, window.describe)
      val step = window.steps.lastStart(0L)
      assertEquals(grid.windowEnd(first), grid.windowEnd(first - 1) + window.steps.end(step) - step)
    }
  }

  property("times at the ends of their range neither wrap nor fail") {
    forAll(window, Gen.oneOf(Long.MinValue, Long.MinValue + 1, Long.MaxValue - 1, Long.MaxValue)) { (window, t) =>
      val grid = window.grid
      windowsOf(grid, grid.ordinalOf(t)).foreach { case (start, end) =>
        assert(start <= t && t <= end, s"[$start, $end)")
      }
      assert(grid.windowEnd(grid.firstWindowEndingAfter(t)) >= t)
    }
  }

  private val hour = 3600L * 1000000L
  private val zones = Gen.oneOf("Europe/Berlin", "America/New_York", "Asia/Kolkata", "America/Sao_Paulo", "UTC")

  private val years: Gen[Long] =
    Gen.choose(978307200L, 2082758400L).flatMap(s => Gen.choose(-1000L, 1000L).map(us => s * 1000000L + us))

  private def localDay(t: Long, zone: String): (Long, Long) = {
    val date = Instant.ofEpochSecond(Math.floorDiv(t, 1000000L)).atZone(ZoneId.of(zone)).toLocalDate
    def start(day: java.time.LocalDate) = day.atStartOfDay(ZoneId.of(zone)).toEpochSecond * 1000000L
    (start(date), start(date.plusDays(1)))
  }

  property("in days of a time zone, a window ends after each hour, and the last one with the day") {
    forAll(zones, years, Gen.oneOf(hour, hour / 2, hour / 4)) { (zone, t, step) =>
      val window = CumulativeWindow.byCalendar(CalendarWindow.ofDays(1, zone), step)
      val (start, end) = localDay(t, zone)
      val expected = (start + step to end by step).filter(_ > t).map(start -> _)
      assertEquals(windowsOf(window.grid, window.grid.ordinalOf(t)), expected, window.describe)
      assertEquals(window.lastStart(t), start)
      assertEquals(window.end(start), end)
    }
  }

  property("in months of a time zone, a window ends with each day") {
    forAll(zones, years) { (zone, t) =>
      val window = CumulativeWindow.byCalendar(CalendarWindow.ofMonths(1, zone), days = 1, months = 0)
      val days = CalendarWindow.ofDays(1, zone)
      val month = CalendarWindow.ofMonths(1, zone)
      val start = month.lastStart(t)
      val ends = Iterator.iterate(days.end(days.lastStart(t)))(days.end(_)).takeWhile(_ <= month.end(start)).toSeq
      assertEquals(windowsOf(window.grid, window.grid.ordinalOf(t)), ends.map(start -> _), window.describe)
    }
  }

  property("in years that begin in April, a window ends with each quarter") {
    forAll(zones, years) { (zone, t) =>
      val year = CalendarWindow.ofMonths(12, zone, offsetMonths = 3)
      val window = CumulativeWindow.byCalendar(year, days = 0, months = 3)
      val quarters = CalendarWindow.ofMonths(3, zone)
      val start = year.lastStart(t)
      val ends =
        Iterator.iterate(quarters.end(quarters.lastStart(t)))(quarters.end(_)).takeWhile(_ <= year.end(start)).toSeq
      assertEquals(windowsOf(window.grid, window.grid.ordinalOf(t)), ends.map(start -> _), window.describe)
    }
  }

  property("calendar cycles at the ends of the time range neither wrap nor fail") {
    forAll(zones, Gen.oneOf(Long.MinValue, Long.MinValue + 1, Long.MaxValue - 1, Long.MaxValue)) { (zone, t) =>
      val grid = CumulativeWindow.byCalendar(CalendarWindow.ofDays(1, zone), hour).grid
      windowsOf(grid, grid.ordinalOf(t)).foreach { case (start, end) =>
        assert(start <= t && t <= end, s"[$start, $end)")
      }
      assert(grid.windowEnd(grid.firstWindowEndingAfter(t)) >= t)
    }
  }

  test("a step that does not fit the calendar is an error with a step that does") {
    val day = CalendarWindow.ofDays(1, "America/New_York")
    def error(of: => Any) = intercept[WindowException](of).getMessage
    assert(clue(error(CumulativeWindow.byCalendar(day, 6 * hour))).contains("does not divide 1 hour, by which clocks"))
    assert(clue(error(CumulativeWindow.byCalendar(day, 7 * hour))).contains("does not divide a day"))
    assert(
      clue(error(CumulativeWindow.byCalendar(day, days = 2, months = 0))).contains("does not divide its size of 1 day")
    )
    assert(
      clue(error(CumulativeWindow.byCalendar(day, days = 0, months = 1))).contains("step of 1 month does not divide")
    )
    assertEquals(CumulativeWindow.byCalendar(CalendarWindow.ofDays(1, "Asia/Kolkata"), 6 * hour).overlaps, true)
    assertEquals(
      CumulativeWindow.byCalendar(day, hour).describe,
      "cumulative 1 day by the calendar of America/New_York in steps of 1 hour"
    )
  }

  test("a step that does not divide the size is an error") {
    val error = intercept[WindowException](CumulativeWindow(10, 3))
    assert(error.getMessage.contains("does not divide its size"), error.getMessage)
    intercept[WindowException](CumulativeWindow(10, 0))
    intercept[WindowException](CumulativeWindow(0, 1))
  }
}
