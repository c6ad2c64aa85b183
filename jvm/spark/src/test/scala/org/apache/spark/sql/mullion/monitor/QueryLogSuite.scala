package org.apache.spark.sql.mullion.monitor

import org.apache.spark.sql.internal.SQLConf

import dev.mullion.windows.clock.Lateness
import dev.mullion.windows.spec.Language
import dev.mullion.{MullionException, MullionSuite}

/** Reports and messages about operators, without a query. */
class QueryLogSuite extends MullionSuite {
  private val minute = 60000L

  test("a clock that has not moved is reported once for each reading, and only while panes wait") {
    val watch = new ClockWatch(10 * minute)
    def check(clock: Long, at: Long, isAwaited: Boolean = true) = watch.check(Some(clock), at * minute, isAwaited)
    assertEquals(Seq(0L, 6L, 9L).flatMap(check(10, _)), Nil)
    assertEquals(check(10, 12), Some(12 * minute))
    assertEquals(check(10, 60), None)
    assertEquals(check(11, 61), None)
    assertEquals(check(11, 75, isAwaited = false), None)
    assertEquals(check(11, 76), Some(15 * minute))
  }

  test("a clock that never started is reported too") {
    val watch = new ClockWatch(10 * minute)
    assertEquals(Seq(0L, 10L).map(at => watch.check(None, at * minute, isAwaited = true)), Seq(None, Some(10 * minute)))
  }

  test("dropped rows are reported at once, and then together after the interval") {
    val watch = new RowsWatch(10 * minute)
    val reports = Seq(0L -> 0L, 5L -> 1L, 3L -> 2L, 4L -> 9L, 0L -> 11L, 2L -> 12L, 0L -> 30L).map { case (rows, at) =>
      watch.add(rows, at * minute)
    }
    assertEquals(reports, Seq(None, Some(5L), None, None, Some(7L), None, Some(2L)))
  }

  private val operator = OperatorDescription(
    number = 1,
    branch = None,
    "tumbling 1 hour, by [k]",
    ClockKind.EventTime,
    streams = 1,
    idleAfterUs = None,
    emitsLate = false,
    partitions = 4,
    Language.Python
  )

  private def report(batch: Long, counts: (Count, Long)*): BatchReport = BatchReport(
    batch,
    timeMs = batch * minute,
    ClockReading(Some(3600000L), Nil, Some("the source orders: no row after 1970-01-01T01:00:00Z")),
    nextDueMs = Some(7200000L),
    rowsRead = 10,
    counts.toMap,
    panesOpen = 2,
    lateness = Seq.fill(Lateness.Buckets)(1L),
    StateSize(1, 2, 3, 4),
    Nil
  )

  private def log(of: OperatorDescription = operator): QueryLog =
    new QueryLog("orders", of, MonitorSettings(showsTab = true, clockAfterMs = 10 * minute))

  test("the start of an operator is logged with its windows, its clock, its state and the version") {
    val words =
      Seq("Operator 1 of query orders", "tumbling 1 hour, by [k]", "clock: event time", "4 partitions", "Mullion ")
    words.foreach(word => assert(clue(log().startMessage).contains(word), word))
  }

  test(
    "the message about a clock has its reading, what it waits for, what holds it, and the fix in the query's language"
  ) {
    val messages = log()
    assertEquals(messages.clockMessage(Some(report(0)), 0), None)
    assertEquals(
      messages.clockMessage(Some(report(0)), 11 * minute),
      Some(
        "Operator 1 of query orders: the event clock has not moved for 11 minutes. It is at 1970-01-01T01:00:00Z, and 2 open panes " +
          "wait for 1 hour of event time. The clock is held by the source orders: no row after 1970-01-01T01:00:00Z. If the stream may be " +
          "quiet, clock=Watermark(idle_after=...) advances the clock without rows."
      )
    )
    assertEquals(messages.clockMessage(Some(report(0)), 30 * minute), None)
  }

  test("a clock of processing time, or a setting of 0, logs nothing") {
    val byWall = log(operator.copy(clock = ClockKind.ProcessingTime))
    val off = new QueryLog("orders", operator, MonitorSettings(showsTab = true, clockAfterMs = 0))
    for (messages <- Seq(byWall, off); at <- Seq(0L, 100L))
      assertEquals(messages.clockMessage(Some(report(0)), at * minute), None)
  }

  test("each cause of dropped rows has a message of its own") {
    val counts = Seq(
      Count.RowsDropped -> 1L,
      Count.RowsWithoutTime -> 2L,
      Count.RowsInNoWindow -> 3L,
      Count.RowsDroppedBefore -> 4L,
      Count.RowsTooFarAhead -> 5L
    )
    val messages = log()
    val texts = messages.droppedMessages(report(7, counts: _*))
    val words = Seq(
      "1 row was dropped up to batch 7" -> "late='emit'",
      "3 rows" -> "no window",
      "4 rows" -> "before the window",
      "2 rows" -> "null",
      "5 rows" -> "ahead of the wall clock"
    )
    assertEquals(texts.length, 5)
    texts.zip(words).foreach { case (text, (rows, cause)) => assert(clue(text).contains(rows) && text.contains(cause)) }
    assertEquals(messages.droppedMessages(report(8, counts: _*)), Nil)
    val emitting = log(operator.copy(emitsLate = true)).droppedMessages(report(7, counts: _*))
    assert(!clue(emitting).exists(_.contains("null")), "rows without time are emitted")
    assert(!emitting.exists(_.contains("ahead")), "rows from the future are emitted")
  }

  test("a history has sums of each batch once, and the last batches") {
    val history = new OperatorHistory(operator)
    val batches = 0L until 250L
    batches.foreach(batch =>
      assert(history.add(report(batch, Count.RowsLate -> 2, Count.FiringsEarly -> 1, Count.FiringsUpdate -> batch)))
    )
    assert(!history.add(report(249, Count.RowsLate -> 2)))
    assertEquals(history.total(Count.RowsLate), 500L)
    assertEquals(history.rowsRead, 2500L)
    assertEquals(history.lateRows, Seq.fill(Lateness.Buckets)(250L))
    assertEquals(history.batches, 250L)
    val recent = history.recent.toMap
    assertEquals(recent("batch"), (150L until 250L).toVector)
    assertEquals(recent("fired"), (151L until 251L).toVector)
  }

  test("an operator waits for its clock, for rows, or for nothing") {
    val (hour, due) = (3600000000L, Some(7200000000L))
    def waits(clock: ClockKind, at: Option[Long], due: Option[Long] = due, panes: Long = 1, idle: Option[Long] = None) =
      operator.copy(clock = clock, idleAfterUs = idle).waitsFor(panes, at, due)
    assertEquals(waits(ClockKind.EventTime, Some(hour)), "1 hour of event time")
    assertEquals(
      waits(ClockKind.EventTime, Some(hour), idle = Some(5000000L)),
      "1 hour of event time, or 5 seconds without rows"
    )
    assertEquals(waits(ClockKind.EventTime, None), "the first row with a time")
    assertEquals(waits(ClockKind.ProcessingTime, Some(hour)), "1 hour of wall time")
    assertEquals(waits(ClockKind.EventTime, Some(2 * hour)), "the next batch")
    assertEquals(waits(ClockKind.EventTime, Some(hour), due = None), "nothing: no pane waits for the clock")
    assertEquals(waits(ClockKind.EventTime, Some(hour), panes = 0), "nothing: no pane is open")
    assertEquals(waits(ClockKind.EventTimeOfKeys, None), "rows of its keys")
    assertEquals(waits(ClockKind.RowNumbers, None), "more rows of its keys")
  }

  test("the advice names the delay that would have kept 99.9 % of the rows") {
    val none = Seq.fill(Lateness.Buckets)(0L)
    val one = Seq(StreamReading("orders", delayMs = 5 * minute, None))
    def advice(late: Seq[Long], streams: Seq[StreamReading] = one) = LatenessAdvice(late, 1000, streams)
    assertEquals(advice(none), "No row was late.")
    assertEquals(advice(none.updated(2, 1L)), "The present delay keeps at least 99.9 % of the rows.")
    val late = none.updated(3, 20L)
    assertEquals(
      advice(late),
      "A watermark delay of 15 minutes instead of 5 minutes would have kept 99.9 % of the rows."
    )
    assertEquals(
      advice(late, one ++ one),
      "A watermark delay that is 10 minutes longer would have kept 99.9 % of the rows."
    )
    assertEquals(
      advice(none.updated(6, 20L)),
      "No delay that is up to 1 day longer would have kept 99.9 % of the rows."
    )
  }

  test("an invalid setting is rejected with a valid value") {
    def settings(key: String, value: String) = {
      val conf = new SQLConf
      conf.setConfString(key, value)
      MonitorSettings.of(conf)
    }
    assertEquals(MonitorSettings.of(new SQLConf), MonitorSettings(showsTab = true, clockAfterMs = 10 * minute))
    assertEquals(settings(MonitorSettings.ClockAfter, "90s").clockAfterMs, 90000L)
    assertEquals(settings(MonitorSettings.ClockAfter, "0").clockAfterMs, 0L)
    for (
      (key, value) <- Seq(
        MonitorSettings.ClockAfter -> "soon",
        MonitorSettings.ClockAfter -> "-1s",
        MonitorSettings.Tab -> "yes"
      )
    ) {
      val error = intercept[MullionException](settings(key, value))
      assert(clue(error.getMessage).startsWith(s"$key=$value"))
    }
  }
}
