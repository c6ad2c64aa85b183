package dev.mullion.windows.rules

import scala.util.Random

import dev.mullion.MullionSuite
import dev.mullion.windows.clock.PaneClock
import dev.mullion.windows.spec.{
  AlignedWindow,
  AroundWindow,
  CalendarWindow,
  CountWindow,
  CustomWindow,
  GridWindow,
  SessionWindow,
  WindowSpec
}

class DrainSuite extends MullionSuite {
  private def tumbling(size: Long, offset: Long = 0) = AlignedWindow.tumbling(size, offset)
  private def sliding(size: Long, slide: Long) = AlignedWindow.sliding(size, slide)
  private def session(gap: Long) = SessionWindow(Some(gap))

  private def rules(
      window: WindowSpec,
      lateness: Long = 0,
      refinements: Refinements = Refinements.none,
      clock: PaneClock = PaneClock.EventTime
  ) = PaneRules(window, lateness, None, LatePolicy.Drop, refinements, clock)

  test("a window takes another's place at an edge of both") {
    assertEquals(Drain.boundary(tumbling(10), tumbling(20), 41), 60L)
    assertEquals(Drain.boundary(tumbling(10), tumbling(20), 60), 60L)
    assertEquals(Drain.boundary(tumbling(20), tumbling(10), 41), 60L)
    assertEquals(Drain.boundary(tumbling(6), tumbling(10), 31), 60L)
    assertEquals(Drain.boundary(sliding(30, 10), tumbling(20, 10), 41), 50L)
    assertEquals(Drain.boundary(tumbling(10), sliding(30, 15), 1), 30L)
  }

  test("where no edge is both's, it does so at the end of a pane of before") {
    assertEquals(Drain.boundary(tumbling(10), tumbling(10, 3), 41), 50L)
    // They meet after 101 windows.
    assertEquals(Drain.boundary(tumbling(100), tumbling(101), 41), 100L)
  }

  test("where one of them has no edges, it does so at the other's; and where neither has, with the next row") {
    assertEquals(Drain.boundary(tumbling(10), session(7), 41), 50L)
    assertEquals(Drain.boundary(session(7), tumbling(10), 41), 50L)
    assertEquals(Drain.boundary(session(7), session(9), 41), 41L)
    assertEquals(Drain.boundary(AroundWindow(5, 2), session(9), 41), 41L)
  }

  test("windows by the calendar have edges where days begin") {
    val (hour, day) = (3600L * 1000000, 86400L * 1000000)
    val days = CalendarWindow.ofDays(1, "Europe/Berlin")
    // The day of 23 hours.
    val march = 1711839600L * 1000000
    assertEquals(Drain.boundary(tumbling(hour), days, march + 1), march + 23 * hour)
    assertEquals(Drain.boundary(days, tumbling(day), march + 1), march + 23 * hour)
  }

  test("the boundary is at or after all processed rows, and an edge of both wherever one is near") {
    val chance = new Random(7)
    def some: AlignedWindow = {
      val slide = 1L + chance.nextInt(12)
      AlignedWindow.sliding(1L + chance.nextInt(30), slide, chance.nextInt(12).toLong)
    }
    for (_ <- 0 until 20000) {
      val (was, now, seen) = (some, some, chance.nextInt(400) - 200L)
      val boundary = Drain.boundary(was, now, seen)
      def isEdge(window: GridWindow, t: Long) = window.grid.windowStart(window.grid.windowAt(t)) == t
      val reach = seen + 10 * Math.max(was.slide, now.slide)
      val both = (seen to reach).find(t => isEdge(was, t) && isEdge(now, t))
      assertEquals(boundary, both.getOrElse((seen to reach).find(isEdge(was, _)).get), s"$was, $now, $seen")
    }
  }

  test("the window of before is over once its panes have closed and no row of its side enters the new one") {
    assertEquals(Drain(rules(tumbling(10), 5), rules(tumbling(20)), 41), Drain(60, 65))
    assertEquals(Drain(rules(tumbling(10)), rules(tumbling(20), 30), 41), Drain(60, 90))
    assertEquals(Drain(rules(sliding(30, 10)), rules(tumbling(20)), 41), Drain(60, 80))
    assertEquals(Drain(rules(tumbling(20)), rules(sliding(30, 10)), 41), Drain(60, 80))
    assertEquals(Drain(rules(session(7), 1), rules(session(9), 2), 41), Drain(41, 51))
    assertEquals(Drain(rules(AroundWindow(5, 2)), rules(session(3)), 41), Drain(41, 48))
  }

  test("once it is over, whatever comes before the boundary is late for either window") {
    val chance = new Random(11)
    def some = rules(
      chance.nextInt(3) match {
        case 0 => tumbling(1L + chance.nextInt(20), chance.nextInt(20).toLong)
        case 1 => sliding(1L + chance.nextInt(20), 1L + chance.nextInt(20))
        case 2 => session(1L + chance.nextInt(20))
      },
      chance.nextInt(10).toLong
    )
    def lastDue(rules: PaneRules, ts: Long) = rules match {
      case aligned: AlignedRules  => aligned.closeDue(aligned.window.end(aligned.window.lastStart(ts)))
      case sessions: SessionRules => sessions.closeDue(ts + sessions.window.gap.get)
      case other                  => fail(other.describe)
    }
    for (_ <- 0 until 5000) {
      val (was, now) = (some, some)
      val drain = Drain(was, now, chance.nextInt(100).toLong)
      for (ts <- drain.boundary - 40 until drain.boundary; of <- Seq(was, now))
        assert(lastDue(of, ts) <= drain.until, s"$was, $now, $drain, $ts")
    }
  }

  test("the downstream watermark does not move back for a new window of more lateness") {
    val drain = Drain(boundary = 60, until = 160)
    assertEquals(drain.outputWatermark(was = 50, now = 0), 50L)
    assertEquals(drain.outputWatermark(was = 90, now = 0), 60L)
    assertEquals(drain.outputWatermark(was = 170, now = 80), 80L)
  }

  test("a window whose rows cannot be assigned is rejected with the reason") {
    def why(was: PaneRules, now: PaneRules) = Drain.refusal(was, now).getOrElse("none")
    assertEquals(why(rules(tumbling(10)), rules(session(5))), "none")
    assert(why(rules(tumbling(10)), rules(CountWindow(3, 3))).contains("row numbers"))
    assert(why(rules(SessionWindow(None)), rules(session(5))).contains("gap was computed"))
    assertEquals(why(rules(session(5)), rules(SessionWindow(None))), "none")
    assert(why(rules(CustomWindow("f")), rules(session(5))).contains("ranges were computed"))
    assert(why(rules(tumbling(10)), rules(tumbling(20), clock = PaneClock.ProcessingTime)).contains("one clock"))
    val empty = Refinements.none.copy(empty = true)
    assert(why(rules(tumbling(10)), rules(tumbling(20), refinements = empty)).contains("empty = Empty.Emit"))
    val taken = Refinements.none.copy(onTime = true, accumulate = false)
    assert(why(rules(sliding(20, 10), 5, taken), rules(tumbling(20))).contains("accumulate = false"))
    assert(
      why(rules(tumbling(10)), rules(tumbling(20), refinements = Refinements.none.copy(atEnd = true)))
        .contains("at_end")
    )
    assert(why(rules(session(5)), rules(session(9), refinements = Refinements.none.copy(ids = true))).contains("ids"))
  }
}
