package dev.mullion.windows.key.session

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.{ArrivalPane, Arriving, KeyClock, PanesOfKey}
import dev.mullion.windows.rules.SessionRules
import dev.mullion.windows.spec.TimeMath

/** The sessions of one key that merge when they touch.
  *
  * @param joins
  *   whether the slots of merging sessions merge: accumulators do; collected rows do not, to avoid rewriting them
  * @param before
  *   those that were open before the batch
  */
final class MergingSessionsOfKey private (
    rules: SessionRules,
    joins: Boolean,
    counted: Boolean,
    ids: SessionIds,
    clock: KeyClock,
    rows: Long,
    sessions: OpenSessions,
    before: OpenSessions
) extends SessionsOfKey(rules, counted, ids, clock, rows, sessions) {

  override protected def fixedGap: Option[Long] = rules.window.gap

  override protected def sharesOpenings: Boolean = fixedGap.isEmpty

  override protected def isLate(row: Arriving, gap: Long, before: Long): Boolean =
    before != BatchClock.BeforeAllTime && rules.mayBeLate(row.time, gap, before) && {
      // By the stream's clock, sessions of this batch do not keep a row from being late, so arrival order does not
      // matter.
      val open = if (clock.isOwn) sessions else this.before
      !open.touches(row.time, TimeMath.plus(row.time, gap))
    }

  override protected def enter(row: Arriving, gap: Long, slot: Long): OpenSessions.Session = {
    var touched = Vector.empty[Array[Long]]
    val end = TimeMath.plus(row.time, gap)
    val session = sessions.add(row.time, end, 1L, clock.reading)(absorbed => touched = touched :+ absorbed.slots)
    val own = if (touched.isEmpty) Array(slot) else touched.iterator.flatten.toArray
    session.slots = if (joins) own.take(1) else own
    joined = if (joins) own.drop(1) else PanesOfKey.none
    session
  }

  override def reopened(row: Arriving): Iterator[ArrivalPane] = {
    val gap = fixedGap.getOrElse(row.gap)
    Iterator.single(ArrivalPane(row.time, row.time, TimeMath.plus(row.time, gap)))
  }
}

object MergingSessionsOfKey {
  def empty(
      rules: SessionRules,
      joins: Boolean,
      counted: Boolean,
      ids: SessionIds,
      clock: KeyClock
  ): MergingSessionsOfKey =
    new MergingSessionsOfKey(rules, joins, counted, ids, clock, 0L, OpenSessions.empty, OpenSessions.empty)

  /** @param clock
    *   the clock of the key, as restored from state
    */
  def fromBytes(
      rules: SessionRules,
      joins: Boolean,
      counted: Boolean,
      ids: SessionIds,
      clock: KeyClock,
      bytes: Array[Byte]
  ): MergingSessionsOfKey = {
    def sessions(bytes: Array[Byte]) = OpenSessions.fromBytes(bytes, counted, ids.kept)
    val (rows, open, ofOpen) = SessionsOfKey.fromBytes(clock, bytes)(sessions)
    new MergingSessionsOfKey(rules, joins, counted, ids, clock, rows, open, sessions(ofOpen))
  }
}
