package org.apache.spark.sql.mullion.monitor

import dev.mullion.MullionSuite
import dev.mullion.windows.spec.Language

/** The sentences with which the tab explains open panes. */
class OpenReasonSuite extends MullionSuite {
  private val hour = 3600000L

  private def reason(
      clock: ClockKind = ClockKind.EventTime,
      panes: Long = 2,
      heldBy: Option[String] = Some("the source orders: no row after 10:00"),
      atMs: Option[Long] = Some(10 * hour),
      nextDueMs: Option[Long] = Some(11 * hour),
      idleAfterUs: Option[Long] = None,
      isRunning: Boolean = true
  ): String = {
    val operator = OperatorDescription(0, None, "", clock, 1, idleAfterUs, emitsLate = false, 2, Language.Python)
    val reading = ClockReading(atMs, Nil, heldBy)
    val report = BatchReport(3, 12 * hour, reading, nextDueMs, 0, Map.empty, panes, Nil, StateSize(0, 0, 0, 0), Nil)
    OpenReason(operator, report, isRunning)
  }

  private val idle = "If the stream may be quiet, clock=Watermark(idle_after=...) advances the clock without rows."

  test("an idle source is named, with the time that the clock needs and the fix") {
    assertEquals(
      reason(),
      "2 panes are open. The next one waits for 1 hour of event time. The clock is held by the source orders: no row after 10:00. " +
        idle
    )
    assertEquals(
      reason(panes = 1, heldBy = None, idleAfterUs = Some(60000000L)),
      "1 pane is open. It waits for 1 hour of event time, or 1 minute without rows."
    )
  }

  test("a clock that has not started, because a stream has no rows, waits for its first row") {
    assertEquals(
      reason(atMs = None, heldBy = Some("the stream b: no row yet")),
      s"2 panes are open. The next one waits for the first row with a time. The clock is held by the stream b: no row yet. $idle"
    )
  }

  test("with a clock for each key, or row numbers, the keys' own rows are named") {
    assertEquals(
      reason(ClockKind.EventTimeOfKeys, heldBy = None),
      "2 open panes wait for rows of their key: each key has its own clock, which only its rows advance. The list of the oldest " +
        "panes has the keys."
    )
    assertEquals(
      reason(ClockKind.RowNumbers, panes = 1),
      "1 open pane waits for more rows of its key. The list of the oldest panes has the keys."
    )
  }

  test("processing time waits for wall time, and has no holder") {
    assertEquals(
      reason(ClockKind.ProcessingTime),
      "2 panes are open. The next one waits for 1 hour of wall time."
    )
  }

  test("the panes of an ended query wait for its next start, and a query without panes has no reason") {
    assert(reason(isRunning = false).endsWith("The query has ended: no pane closes until it is started again."))
    assertEquals(reason(panes = 0, isRunning = false), "No pane is open.")
  }
}
