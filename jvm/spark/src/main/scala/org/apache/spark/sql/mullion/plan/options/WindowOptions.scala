package org.apache.spark.sql.mullion.plan.options

import org.apache.spark.sql.{AnalysisException, Column}
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.mullion.expressions.udf.{PythonSplit, SplitBy}
import org.apache.spark.sql.mullion.shim.Classic

import dev.mullion.MullionException
import dev.mullion.windows.clock.PaneClock
import dev.mullion.windows.rules.{Collected, EarlyFiring, LatePolicy, PaneRules, Refinements}
import dev.mullion.windows.spec.{Duration, Setting, WindowSpec}

/** The options of panes other than their window, keys and contents; the default is none. Python sets them one by one,
  * by its own names. Lengths of time are microseconds.
  *
  * @param time
  *   the event time; none for processing time
  * @param gap
  *   the interval of each row, for sessions by row
  * @param ranges
  *   the ranges of each row, for custom windows
  * @param rangesText
  *   their description, if their SQL lacks it
  * @param idleAfter
  *   the time without rows after which the event clock follows the wall clock; none for never
  * @param maxAhead
  *   how far the event time of a row may be ahead of the wall clock; none for any
  * @param trigger
  *   the condition that closes a global window
  * @param endsWith
  *   the condition that also closes a global window
  * @param running
  *   whether each row fires its panes
  * @param perKey
  *   whether each key has its own event clock
  * @param keysFollowWall
  *   whether that clock follows the wall clock
  * @param lateBehindClock
  *   whether a row behind that clock is late even if its pane is open
  * @param forgetAfter
  *   the wall time without rows after which a key is forgotten; none for never
  * @param collect
  *   for panes that collect their rows instead of aggregating
  * @param split
  *   the function that splits global windows
  * @param splitColumns
  *   its input columns; none for all
  * @param fromNow
  *   whether aggregates that a checkpoint lacks begin with the next rows
  * @param dedupeBy
  *   the columns that deduplicate the rows of a pane; none to count all rows
  * @param drains
  *   whether the window may replace another one of the checkpoint, whose panes stay open until they close
  * @param drops
  *   whether panes of removed windows that shared a query with this one are dropped
  * @param knownKeys
  *   the table with the keys whose windows close without rows from the start on
  */
final case class WindowOptions(
    time: Option[Column] = None,
    gap: Option[Column] = None,
    ranges: Option[Column] = None,
    rangesText: Option[String] = None,
    allowedLateness: Long = 0L,
    early: Option[EarlyFiring] = None,
    refinements: Refinements = Refinements.none,
    late: LatePolicy = LatePolicy.Drop,
    idleAfter: Option[Long] = None,
    maxAhead: Option[Long] = None,
    trigger: Option[Column] = None,
    endsWith: Option[Column] = None,
    running: Boolean = false,
    perKey: Boolean = false,
    keysFollowWall: Boolean = false,
    lateBehindClock: Boolean = false,
    forgetAfter: Option[Long] = None,
    collect: Option[Collected] = None,
    split: Option[SplitBy] = None,
    splitColumns: Seq[Column] = Nil,
    dedupeBy: Seq[Column] = Nil,
    fromNow: Boolean = false,
    drains: Boolean = false,
    drops: Boolean = false,
    knownKeys: Option[SparkSession => DataFrame] = None
) {
  def withTime(column: Column): WindowOptions = copy(time = Some(column))

  def withGap(column: Column): WindowOptions = copy(gap = Some(column))

  def withRanges(column: Column): WindowOptions = copy(ranges = Some(column))

  def withRangesText(words: String): WindowOptions = copy(rangesText = Some(words))

  def withAllowedLateness(us: Long): WindowOptions = copy(allowedLateness = us)

  def withEarly(every: Long, unchanged: Boolean): WindowOptions = copy(early = Some(EarlyFiring(every, unchanged)))

  def withEarlyByWall(every: Long, unchanged: Boolean): WindowOptions =
    copy(early = Some(EarlyFiring(every, unchanged, byWall = true)))

  def withEarlyCount(rows: Long): WindowOptions = copy(refinements = refinements.copy(count = Some(rows)))

  def withOnTime(onTime: Boolean): WindowOptions = copy(refinements = refinements.copy(onTime = onTime))

  def withAccumulate(accumulate: Boolean): WindowOptions =
    copy(refinements = refinements.copy(accumulate = accumulate))

  def withLate(policy: String): WindowOptions = copy(late = LatePolicy.named(policy))

  def withEmpty(empty: Boolean): WindowOptions = copy(refinements = refinements.copy(empty = empty))

  def withEmptyFor(keys: DataFrame): WindowOptions = withEmpty(true).copy(knownKeys = Some(_ => keys))

  /** @param table
    *   the name of a table or view
    */
  def withEmptyFor(table: String): WindowOptions =
    withEmpty(true).copy(knownKeys = Some { spark =>
      try Classic.frame(spark.table(table))
      catch {
        case _: AnalysisException =>
          throw MullionException.invalid(
            s"${Setting.emptyFor(table)} is not a table or view of this session. Name one that has the columns of ${Setting.By}."
          )
      }
    })

  def withForward: WindowOptions = copy(refinements = refinements.copy(empty = true, forward = true))

  def withIds(ids: Boolean): WindowOptions = copy(refinements = refinements.copy(ids = ids))

  def withCloseAtEnd: WindowOptions = copy(refinements = refinements.copy(atEnd = true))

  def withEndsWith(column: Column): WindowOptions = copy(endsWith = Some(column))

  def withTrigger(column: Column): WindowOptions = copy(trigger = Some(column))

  /** @param function
    *   a Python UDF over Arrow, created by `mullion._bridge.global_splits`: only its function is used
    */
  def withSplit(function: Column, name: String): WindowOptions =
    copy(split = Some(PythonSplit(function, name)))

  def withSplitColumns(columns: Array[Column]): WindowOptions = copy(splitColumns = columns.toSeq)

  def withDedupeBy(columns: Array[Column]): WindowOptions = copy(dedupeBy = columns.toSeq)

  def withNewAggregatesFromNow: WindowOptions = copy(fromNow = true)

  def withDrainOnChange: WindowOptions = copy(drains = true)

  def withDropOnChange: WindowOptions = copy(drops = true)

  def withRunning: WindowOptions = copy(running = true)

  def withClockPerKey(followsWall: Boolean): WindowOptions = copy(perKey = true, keysFollowWall = followsWall)

  def withLateBehindClock: WindowOptions = copy(lateBehindClock = true)

  def withForgetAfter(us: Long): WindowOptions = copy(forgetAfter = Some(us))

  def withCollect(byTime: Boolean, name: String, maxRows: Long, inParts: Boolean = false): WindowOptions =
    copy(collect = Some(Collected(byTime, name, maxRows, inParts)))

  def withIdleAfter(us: Long): WindowOptions = copy(idleAfter = Some(us))

  def withMaxAhead(us: Long): WindowOptions = copy(maxAhead = Some(us))

  def rules(window: WindowSpec): PaneRules =
    PaneRules(window, allowedLateness, early, late, refinements, clock)

  private def clock: PaneClock = if (time.isEmpty) PaneClock.ProcessingTime else PaneClock.EventTime

  idleAfter.filter(_ < 1000).foreach { us =>
    throw MullionException.invalid(
      s"${Setting.IdleAfter} is ${Duration.describe(us)}: it must be at least 1 millisecond, the unit of Spark's clocks. Give a " +
        s"longer one, such as ${Setting.quoted("30 seconds")}."
    )
  }

  maxAhead.filter(_ < 0).foreach { us =>
    throw MullionException.invalid(
      s"${Setting.MaxAhead} is ${Duration.describe(us)}: it must not be negative. Give a duration of 0 or more, such as " +
        s"${Setting.quoted("1 hour")}."
    )
  }

  forgetAfter.filter(_ <= 0).foreach { us =>
    throw MullionException.invalid(
      s"${Setting.ForgetAfter} ${Duration.describe(us)}: a key can only be forgotten after a time without rows. Give a positive " +
        s"duration, such as ${Setting.text("forget_after", "1 day")}."
    )
  }
}
