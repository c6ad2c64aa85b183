package org.apache.spark.sql.mullion.operator.engine.rowwise

import org.apache.spark.sql.mullion.operator.engine.{PaneProgram, RowProgram}

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.session.{MergingSessionsOfKey, OrderedSessionsOfKey, SessionIds}
import dev.mullion.windows.key.{AlignedPanesOfKey, CountPanesOfKey, GlobalPaneOfKey, KeyClock, PaneTimeout, PanesOfKey}
import dev.mullion.windows.rules.{AlignedRules, NumberedRules, OrderedRules, PaneRules, SessionRules}
import dev.mullion.windows.spec.{CountWindow, GlobalTrigger, GlobalWindow, SliceGrid}

/** Creates the panes of keys whose rows are processed one by one, by the kind of window. */
private[engine] final class PanesOfKeys(program: PaneProgram, rows: RowProgram, clock: BatchClock) {
  private val counted = rows.byRow.running || program.rules.firesOpen

  /** True if panes do not share slots, because each fires separately, or clears the rows that it emits. */
  private val byPane = rows.byRow.running || !program.rules.refinements.accumulate

  /** The slices of windows of row numbers, if their panes share them. */
  val counts: Option[SliceGrid] = program.rules.window match {
    case count: CountWindow if !rows.byRow.running && count.every < count.size => Some(CountPanesOfKey.grid(count))
    case _                                                                     => None
  }

  private def refused(rules: PaneRules) =
    throw new IllegalStateException(s"rows of ${rules.describe} are not processed one by one")

  private val grid = program.rules.window match {
    case count: CountWindow => Some(CountPanesOfKey.grid(count))
    case _                  => None
  }

  private def timeout(count: CountWindow) = count.timeout.map(PaneTimeout(_, clock.wall))

  def empty: PanesOfKey = program.rules match {
    // With a timeout the starts of windows depend on the clock.
    case NumberedRules(count: CountWindow, _, _) if count.timeout.isDefined =>
      GlobalPaneOfKey.empty(GlobalTrigger.Every(count.size), timeout(count))
    case NumberedRules(count: CountWindow, _, _)       => new CountPanesOfKey(count, grid.get, rows.byRow.running, 0L)
    case NumberedRules(GlobalWindow(trigger, _), _, _) => GlobalPaneOfKey.empty(trigger)
    case aligned: AlignedRules                         => AlignedPanesOfKey.empty(aligned, byPane, counted, keyClock)
    case sessions: SessionRules => MergingSessionsOfKey.empty(sessions, !rows.keepsRows, counted, ids, keyClock)
    case ordered: OrderedRules  => OrderedSessionsOfKey.empty(ordered, !rows.keepsRows, counted, ids, keyClock)
    case other                  => refused(other)
  }

  def fromBytes(bytes: Array[Byte]): PanesOfKey = program.rules match {
    case NumberedRules(count: CountWindow, _, _) if count.timeout.isDefined =>
      GlobalPaneOfKey.fromBytes(GlobalTrigger.Every(count.size), timeout(count), bytes)
    case NumberedRules(count: CountWindow, _, _) =>
      CountPanesOfKey.fromBytes(count, grid.get, rows.byRow.running, bytes)
    case NumberedRules(GlobalWindow(trigger, _), _, _) => GlobalPaneOfKey.fromBytes(trigger, None, bytes)
    case aligned: AlignedRules  => AlignedPanesOfKey.fromBytes(aligned, byPane, counted, keyClock, bytes)
    case sessions: SessionRules =>
      MergingSessionsOfKey.fromBytes(sessions, !rows.keepsRows, counted, ids, keyClock, bytes)
    case ordered: OrderedRules =>
      OrderedSessionsOfKey.fromBytes(ordered, !rows.keepsRows, counted, ids, keyClock, bytes)
    case other => refused(other)
  }

  private val ids =
    if (!program.rules.refinements.ids) SessionIds.none
    else {
      val mayShareOpenings = program.rules.isInstanceOf[OrderedRules]
      SessionIds(kept = true, rows.byRow.running || rows.byRow.delayByKey.isDefined || mayShareOpenings, clock.number)
    }

  private def keyClock: KeyClock =
    rows.byRow.delayByKey.fold(KeyClock.ofStream(clock)) { delay =>
      val wall = Option.when(rows.byRow.keysFollowWall)(clock.wall)
      KeyClock.ofKey(delay, BatchClock.BeforeAllTime, wall, rows.byRow.lateBehindClock)
    }
}
