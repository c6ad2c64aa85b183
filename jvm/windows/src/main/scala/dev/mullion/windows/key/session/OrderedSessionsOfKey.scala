package dev.mullion.windows.key.session

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.{Arriving, KeyClock, PanesOfKey}
import dev.mullion.windows.rules.OrderedRules
import dev.mullion.windows.spec.TimeMath

/** The windows of one key whose bounds depend on the order of its rows, which come in order of time within a batch.
  *
  * @param joins
  *   whether the slots of merging windows merge
  */
final class OrderedSessionsOfKey private (
    rules: OrderedRules,
    joins: Boolean,
    counted: Boolean,
    ids: SessionIds,
    clock: KeyClock,
    rows: Long,
    windows: OrderedSessions
) extends SessionsOfKey(rules, counted, ids, clock, rows, windows) {

  override protected def fixedGap: Option[Long] = rules.window.gap

  override protected def sharesOpenings: Boolean = rules.window.endsWithRow || fixedGap.isEmpty

  override protected def isLate(row: Arriving, gap: Long, before: Long): Boolean = {
    def hadClosed(end: Long) = before != BatchClock.BeforeAllTime && before >= rules.closeDue(end)
    windows.locate(row.time, gap, row.closes, mayEndOpen = !hadClosed(TimeMath.plus(row.time, 1)))
    !windows.joinsOpen && hadClosed(windows.end)
  }

  override protected def enter(row: Arriving, gap: Long, slot: Long): OpenSessions.Session = {
    val window = windows.add(slot, clock.reading)
    joined = if (joins) window.slots.drop(1) else PanesOfKey.none
    if (joins) window.slots = window.slots.take(1)
    window
  }
}

object OrderedSessionsOfKey {
  def empty(
      rules: OrderedRules,
      joins: Boolean,
      counted: Boolean,
      ids: SessionIds,
      clock: KeyClock
  ): OrderedSessionsOfKey =
    new OrderedSessionsOfKey(rules, joins, counted, ids, clock, 0L, OrderedSessions.empty(rules))

  /** @param clock
    *   the clock of the key, as restored from state
    */
  def fromBytes(
      rules: OrderedRules,
      joins: Boolean,
      counted: Boolean,
      ids: SessionIds,
      clock: KeyClock,
      bytes: Array[Byte]
  ): OrderedSessionsOfKey = {
    val (rows, windows, _) =
      SessionsOfKey.fromBytes(clock, bytes)(OrderedSessions.fromBytes(rules, _, counted, ids.kept))
    new OrderedSessionsOfKey(rules, joins, counted, ids, clock, rows, windows)
  }
}
