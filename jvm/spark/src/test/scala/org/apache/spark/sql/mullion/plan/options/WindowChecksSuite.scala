package org.apache.spark.sql.mullion.plan.options

import org.apache.spark.sql.functions.col

import dev.mullion.windows.spec._
import dev.mullion.{MullionException, MullionSuite}

class WindowChecksSuite extends MullionSuite {
  private val second = 1000000L
  private val tumbling = AlignedWindow.tumbling(10 * second, 0)
  private val session = SessionWindow(Some(second))
  private val around = AroundWindow(second, 0)
  private val count = CountWindow(5, 5)
  private val split = GlobalWindow(GlobalTrigger.Split("gaps"))
  private val custom = CustomWindow("shifts")

  private val wall = WindowOptions()
  private val event = wall.withTime(col("ts"))
  private val perKey = event.withClockPerKey(followsWall = false)
  private val running = event.withRunning
  private val collected = event.withCollect(byTime = false, "rows", 10)
  private val deduped = event.withDedupeBy(Array(col("id")))

  private def refusal(window: WindowSpec, options: => WindowOptions): String =
    intercept[MullionException](WindowChecks(window, options)).getMessage

  private def rejected(what: String)(cases: (WindowSpec, WindowOptions, String)*): Unit =
    test(s"$what is rejected with its names and the fix") {
      cases.foreach { case (window, options, words) =>
        assert(clue(Language.Python(refusal(window, options))).startsWith(words))
        Spelling.languages.foreach(language => Spelling.check(language, language(refusal(window, options))))
      }
    }

  test("compatible options are accepted, and give the rules of the panes") {
    Seq(
      tumbling -> event.withAllowedLateness(second).withLate("emit").withIdleAfter(second),
      tumbling -> wall,
      session -> running.withLate("emit"),
      tumbling -> perKey.withLateBehindClock.withLate("emit"),
      count -> wall.withRunning,
      split -> wall,
      custom -> event,
      around -> deduped,
      tumbling -> collected.withEarly(second, unchanged = false),
      tumbling -> collected.withEarlyCount(3).withAccumulate(false).withEmpty(true)
    ).foreach { case (window, options) => assertEquals(WindowChecks(window, options).window, window) }
  }

  rejected("an option for late rows or a stopped clock, on processing time,")(
    (
      tumbling,
      wall.withAllowedLateness(1),
      "allowed_lateness= has no effect on processing time (time=None), where no row is late"
    ),
    (session, wall.withLate("emit"), "late= has no effect"),
    (
      around,
      wall.withIdleAfter(second),
      "clock=Watermark(idle_after=...) has no effect on processing time (time=None), where the clock never stops"
    ),
    (
      tumbling,
      wall.withMaxAhead(second),
      "clock=Watermark(max_ahead=...) has no effect on processing time (time=None), where no row is ahead"
    ),
    (custom, wall, "Custom windows need event time")
  )

  rejected("an option that needs a clock, for windows of row numbers,")(
    (count, event.withAllowedLateness(1), "allowed_lateness= needs a clock"),
    (count, wall.withEarly(second, unchanged = false), "early= needs a clock"),
    (split, wall.withEarlyCount(3), "early= needs a clock"),
    (count, wall.withLate("reopen"), "late= needs a clock"),
    (count, wall.withOnTime(true), "on_time=True needs a clock"),
    (count, wall.withAccumulate(false), "accumulate=False needs a clock"),
    (count, event.withIdleAfter(second), "clock=Watermark(idle_after=...) needs a clock"),
    (count, event.withMaxAhead(second), "clock=Watermark(max_ahead=...) needs a clock"),
    (tumbling, event.withForgetAfter(second), "forget_after= needs keys that are kept"),
    (count, event.withForgetAfter(second).withIds(true), "forget_after= with ids=True"),
    (count, perKey, "clock=PerKey() needs a clock"),
    (count, wall.withEmpty(true), "empty='emit' needs windows that exist without rows")
  )

  rejected("a firing that needs aggregates of a batch, where each row is processed alone,")(
    (tumbling, running.withEarlyCount(3), "early=Early(count=...) with early=Early(each_row=True)"),
    (session, collected.withEarlyCount(3), "early=Early(count=...) with collect()"),
    (session, collected.withAccumulate(false).withEarlyCount(3), "early=Early(count=...) with collect()"),
    (tumbling, perKey.withEarlyCount(3), "early=Early(count=...) with clock=PerKey()"),
    (tumbling, perKey.withOnTime(true).withAllowedLateness(1), "on_time=True with clock=PerKey()"),
    (tumbling, running.withEmpty(true), "empty='emit' with early=Early(each_row=True)"),
    (
      tumbling,
      running.withAccumulate(false).withEarly(second, unchanged = false),
      "accumulate=False with early=Early(each_row=True)"
    )
  )

  rejected("a window that shares rows, where each row is processed alone,")(
    (around, running, "early=Early(each_row=True) with from"),
    (custom, perKey, "clock=PerKey() with custom")
  )

  rejected("an option for another clock, where each key has its own,")(
    (tumbling, wall.withClockPerKey(followsWall = false), "clock=PerKey(): on processing time"),
    (
      tumbling,
      event.withClockPerKey(followsWall = true).withEarly(second, unchanged = false),
      "early= with clock=PerKey(wall_time=True)"
    ),
    (tumbling, perKey.withEarlyByWall(second, unchanged = false), "early=Early(wall=...) with clock=PerKey()")
  )

  rejected("a new pane for a row that is late by its key's clock")(
    (
      tumbling,
      perKey.withLateBehindClock.withLate("reopen"),
      "clock=PerKey(late_by='watermark') with late='reopen'"
    )
  )

  rejected("a firing for each row that adds nothing")(
    (split, wall.withRunning, "early=Early(each_row=True) is not for Global.split(gaps)"),
    (tumbling, collected.withRunning, "early=Early(each_row=True) with collect()"),
    (tumbling, running.withEarly(second, unchanged = false), "early=Early(each_row=True) with an interval"),
    (tumbling, running.withLate("reopen"), "late='reopen' with early=Early(each_row=True)"),
    (tumbling, running.withLate("reopen each"), "late='reopen each' with early=Early(each_row=True)")
  )

  rejected("an option that counts copies, with dedupe_by,")(
    (count, wall.withDedupeBy(Array(col("id"))), "dedupe_by= with a window of row numbers"),
    (tumbling, collected.withDedupeBy(Array(col("id"))), "dedupe_by= with collect()"),
    (
      tumbling,
      deduped.withAccumulate(false).withEarly(second, unchanged = false),
      "dedupe_by= with accumulate=False"
    ),
    (tumbling, deduped.withEarlyCount(3), "dedupe_by= with early=Early(count=...)")
  )

  rejected("an option for windows without rows whose values or keys are unknown")(
    (session, event.withEmptyFor("keys"), "empty=EmitFor(...) needs windows that exist without rows"),
    (session, event.withForward, "empty='forward' needs windows that exist without rows"),
    (tumbling, collected.withForward, "collect(): empty='forward' would keep the rows"),
    (tumbling, perKey.withForward, "empty='forward' with clock=PerKey()"),
    (tumbling, collected.withEmptyFor("keys"), "empty=EmitFor(...) with collect()"),
    (tumbling, event.withEmptyFor("keys").withCloseAtEnd, "empty=EmitFor(...) with at_end='close'")
  )
}
