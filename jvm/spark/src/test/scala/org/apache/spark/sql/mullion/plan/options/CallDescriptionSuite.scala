package org.apache.spark.sql.mullion.plan.options

import org.apache.spark.sql.functions.col
import org.apache.spark.sql.mullion.Damage

import dev.mullion.{MullionException, MullionSuite}

/** Serialized calls: input that this version's Python never writes raises Mullion's error. */
class CallDescriptionSuite extends MullionSuite {

  private val windows = Seq(
    """{"kind": "tumbling", "size": 60000000, "offset": 0}""",
    """{"kind": "tumbling", "size": 60000000, "starts": "first row"}""",
    """{"kind": "sliding", "size": 60000000, "slide": 1000000, "offset": 5}""",
    """{"kind": "calendar", "number": 2, "unit": "month", "slides": 1, "timezone": "Europe/Berlin", "week_start": "Monday",
      | "offset_months": 1, "offset": 0}""".stripMargin,
    """{"kind": "cumulate", "size": 9000000, "step": 3000000, "offset": 0}""",
    """{"kind": "cumulate", "cycle": {"number": 1, "unit": "day", "slides": 1, "timezone": "Europe/Berlin",
      | "week_start": "Monday", "offset_months": 0, "offset": 0}, "step": 3600000000}""".stripMargin,
    """{"kind": "cumulate", "cycle": {"number": 1, "unit": "month", "slides": 1, "timezone": "Europe/Berlin",
      | "week_start": "Monday", "offset_months": 0, "offset": 0}, "step_days": 1}""".stripMargin,
    """{"kind": "around", "before": 5000000, "after": 0}""",
    """{"kind": "session", "gap": 4000000}""",
    """{"kind": "session", "gap": 4000000, "max_length": 9000000, "ends_with": true}""",
    """{"kind": "count", "size": 7, "every": 3}""",
    """{"kind": "count", "size": 7, "every": 7, "timeout": 5000000}""",
    """{"kind": "every", "rows": 10, "ends_with": true}""",
    """{"kind": "split", "function": "f"}"""
  )

  private val options =
    """{"allowed_lateness": 5, "on_time": true, "accumulate": false, "late": "emit", "empty": "skip", "ids": true,
      | "at_end": "close", "clock": {"kind": "per key", "wall_time": false, "late_by": "watermark"},
      | "upgrade": {"new_aggregates": "from now", "window": "reject"},
      | "early": {"every": 3, "wall": null, "count": 9, "unchanged": true, "each_row": false}}""".stripMargin

  private val roles = """["by", "time", "dedupe_by", "aggregate"]"""
  private val columns = Seq("k", "ts", "id", "n").map(col)

  private def call(window: String): String =
    s"""{"call": "windowed", "window": $window, "options": $options, "columns": $roles}"""

  private def refusal(json: String): Option[String] =
    try {
      CallDescription.read(json, columns)
      None
    } catch { case e: MullionException => Some(e.getMessage) }

  test("a damaged call is read or rejected with Mullion's error") {
    windows.foreach { window =>
      val description = call(window)
      assert(!clue(refusal(description)).exists(_.contains("same version")))
      val refused = Damage.of(description).flatMap(refusal)
      assert(clue(refused.length) > 100)
    }
    assert(clue(refusal("{").get).contains("Install the same version of Mullion on both sides"))
  }

  test("a number of days beyond the calendar is rejected, and none wraps around") {
    val many = (1L << 32) + 1
    val says = refusal(
      call(
        s"""{"kind": "calendar", "number": $many, "unit": "day", "slides": 1, "timezone": "UTC", "offset": 0}"""
      )
    )
    assert(clue(says.get).startsWith(s"$many is more than"))
  }
}
