package dev.mullion.windows.rules

import dev.mullion.MullionSuite
import dev.mullion.windows.WindowException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.spec.AlignedWindow

class RefinementsSuite extends MullionSuite {
  private val hour = 3600L

  private def rules(refinements: Refinements, lateness: Long = 600) =
    AlignedRules(AlignedWindow.tumbling(hour), lateness, None, LatePolicy.Drop, refinements)

  private def at(now: Long) = BatchClock(before = 0, now, wall = 0, rowsCame = true)

  private val onTime = rules(Refinements(None, onTime = true, accumulate = true))

  test("a pane whose first rows come after its end is on time at once") {
    assertEquals(onTime.afterRows(end = 100, rows = 1, wasOnTime = false, at(100)), Some(FiringKind.OnTime))
    assertEquals(onTime.afterRows(end = 100, rows = 1, wasOnTime = false, at(99)), None)
  }

  test("after on_time rows are an update, until the close") {
    assertEquals(onTime.afterRows(end = 100, rows = 1, wasOnTime = true, at(100)), Some(FiringKind.Update))
    assertEquals(onTime.afterRows(end = 100, rows = 1, wasOnTime = true, at(699)), Some(FiringKind.Update))
    assertEquals(onTime.afterRows(end = 100, rows = 1, wasOnTime = true, at(700)), None)
  }

  test("a pane without new rows fires for none") {
    assertEquals(onTime.afterRows(end = 100, rows = 0, wasOnTime = true, at(100)), None)
  }

  test("a loaded pane does not fire by its interval in a batch in which it closes or is on time") {
    val rules = AlignedRules(
      AlignedWindow.tumbling(hour),
      allowedLateness = 600,
      Some(EarlyFiring(every = 10, unchanged = false)),
      LatePolicy.Drop,
      Refinements(None, onTime = true, accumulate = true)
    )
    def fires(now: Long, eventReading: Long, wasOnTime: Boolean = false) =
      rules.earlyAfterRows(end = 100, eventReading, wallReading = 0, wasOnTime, at(now))
    assertEquals(fires(now = 99, eventReading = 90), None)
    assertEquals(fires(now = 99, eventReading = 89), Some(FiringKind.Early))
    assertEquals(fires(now = 99, eventReading = 89, wasOnTime = true), None)
    assertEquals(fires(now = 100, eventReading = 89), None, "it is on time")
    assertEquals(fires(now = 700, eventReading = 89), None, "it closes")
    val without = rules.copy(refinements = Refinements.none)
    assertEquals(
      without.earlyAfterRows(end = 100, eventReading = 89, wallReading = 0, wasOnTime = false, at(699)),
      Some(FiringKind.Early)
    )
    assertEquals(onTime.earlyAfterRows(end = 100, eventReading = 0, wallReading = 0, wasOnTime = false, at(99)), None)
  }

  test("a pane fires early once it has got so many rows, but not in the batch in which it closes") {
    val counting = rules(Refinements(Some(3), onTime = false, accumulate = true))
    assertEquals(counting.afterRows(end = 100, rows = 2, wasOnTime = false, at(0)), None)
    assertEquals(counting.afterRows(end = 100, rows = 3, wasOnTime = false, at(0)), Some(FiringKind.Early))
    assertEquals(counting.afterRows(end = 100, rows = 3, wasOnTime = false, at(700)), None)
  }

  test("in the batch with which the input ends a pane only closes") {
    val counting = rules(Refinements(Some(3), onTime = true, accumulate = true))
    val end = at(150).copy(inputEnds = true)
    assertEquals(counting.afterRows(end = 200, rows = 3, wasOnTime = false, end), None)
    assertEquals(counting.afterRows(end = 100, rows = 3, wasOnTime = true, end), None)
    assert(!counting.isOnTime(end = 100, end))
  }

  test("an id belongs to one pane for ever, so ids are rejected where a window may open again after the end") {
    val refused = intercept[WindowException](Refinements.none.copy(ids = true, atEnd = true)).getMessage
    assert(refused.contains("ids = true and closeAtEnd = true"), refused)
  }

  test("the clock next does something to a pane at its end, and once that is over at its close") {
    assertEquals(onTime.nextDue(end = 100, wasOnTime = false), 100L)
    assertEquals(onTime.nextDue(end = 100, wasOnTime = true), 700L)
  }

  test("on_time without lateness, accumulate=False without firings and a count of zero are rejected with the fix") {
    def refused(make: => Any) = intercept[WindowException](make).getMessage
    assert(
      refused(rules(Refinements(None, onTime = true, accumulate = true), lateness = 0)).contains("allowedLateness")
    )
    assert(
      refused(rules(Refinements(None, onTime = false, accumulate = false))).contains("Add early = or onTime = true")
    )
    assert(refused(Refinements(Some(0), onTime = false, accumulate = true)).contains("Early.count(1000)"))
  }

  test("refinements read as people say them") {
    val all = rules(Refinements(Some(5), onTime = true, accumulate = false)).describe
    assert(
      all.contains(
        "fires early after every 5 rows, fires at its end and when changed after it, each firing has the rows since"
      ),
      all
    )
  }
}
