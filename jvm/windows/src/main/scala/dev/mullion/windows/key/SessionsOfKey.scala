package dev.mullion.windows.key

import dev.mullion.windows.rules.{EarlyFiring, FiringKind, SessionRules}
import dev.mullion.windows.sets.Varint
import dev.mullion.windows.spec.TimeMath

/** The sessions of one key. A session has a slot that is numbered by its first row. When sessions merge, their slots
  * merge, or the session has several.
  *
  * @param joins
  *   whether the slots of merging sessions merge: accumulators do; collected rows do not, to avoid rewriting them
  * @param counted
  *   whether panes fire before they close
  * @param ids
  *   whether panes have ids, and at what point they get them
  * @param kept
  *   the slots of each open session, by its start
  */
final class SessionsOfKey(
    rules: SessionRules,
    joins: Boolean,
    counted: Boolean,
    ids: SessionIds,
    clock: KeyClock,
    private var rows: Long,
    sessions: OpenSessions,
    before: OpenSessions,
    kept: java.util.HashMap[Long, Array[Long]]
) extends PanesOfKey {
  private val rowsBefore = rows
  private var current = Option.empty[OpenSessions.Session]
  private var joined = PanesOfKey.none

  override def number: Long = rows

  override def closesBefore(row: Arriving): Iterator[ArrivalPane] =
    if (clock.followsWall) advance(clock.now) else Iterator.empty

  override def take(row: Arriving): Fate = {
    val ts = row.time
    val isLate = clock.isAhead(ts)
    val gap = rules.window.gap.getOrElse(row.gap)
    val previous = clock.now
    val hadStarted = clock.started
    clock.see(ts)
    if (gap <= 0) Fate.InNoWindow
    else {
      val end = TimeMath.plus(ts, gap)
      // By the stream's clock, sessions of this batch do not keep a row from being late, so arrival order does not
      // matter.
      val open = if (clock.isOwn) sessions else before
      if (isLate || hadStarted && rules.mayBeLate(ts, gap, previous) && !open.touches(ts, end)) Fate.Late
      else { add(ts, end); Fate.InPanes }
    }
  }

  private def add(first: Long, end: Long): Unit = {
    var touched = Vector.empty[Array[Long]]
    val session = sessions.add(first, end, 1L, clock.reading) { start => touched = touched :+ kept.remove(start) }
    val own = if (touched.isEmpty) Array(rows) else touched.iterator.flatten.toArray
    joined = if (joins) own.drop(1) else PanesOfKey.none
    kept.put(session.first, if (joins) own.take(1) else own)
    if (ids.atOnce) session.name(originOf(rows - rowsBefore))
    current = Some(session)
    rows += 1
  }

  override def slots: Array[Long] = current.fold(PanesOfKey.none)(s => kept.get(s.first).take(1))

  override def merged: Array[Long] = joined

  override def touched: Iterator[ArrivalPane] = current.iterator.map(pane)

  override def closes(): Iterator[ArrivalPane] = if (clock.isOwn) advance(clock.now) else Iterator.empty

  override def advance(clock: Long): Iterator[ArrivalPane] =
    if (sessions.isEmpty || clock < rules.closeDue(sessions(0).end)) Iterator.empty
    else
      Iterator
        .continually(())
        .takeWhile(_ => !sessions.isEmpty && clock >= rules.closeDue(sessions(0).end))
        .map(_ => pane(sessions(0)))

  override def reopened(row: Arriving): Iterator[ArrivalPane] = {
    val gap = rules.window.gap.getOrElse(row.gap)
    Iterator.single(ArrivalPane(row.time, row.time, TimeMath.plus(row.time, gap)))
  }

  override def slotsOf(pane: ArrivalPane): Array[Long] = kept.get(pane.start)

  override def isNew(slot: Long): Boolean = slot >= rowsBefore

  override def forget(pane: ArrivalPane): Array[Long] = {
    sessions.removeFirst()
    kept.remove(pane.start)
  }

  override def fired(pane: ArrivalPane): Int = session(pane).fold(0)(_.fired)

  override def fire(pane: ArrivalPane): Unit = session(pane).foreach(_.fire(FiringKind.Early, clock.reading))

  override def early(firing: EarlyFiring): Seq[ArrivalPane] =
    all.filter(_.isDue(firing, clock.reading)).map(pane).toVector

  override def firstReadings(firing: EarlyFiring): Option[(Long, Long)] =
    sessions.firstToFire(firing).map(s => (s.eventReading, s.wallReading))

  override def firedAt(pane: ArrivalPane): Option[Long] =
    if (!counted || clock.isOwn) None else session(pane).map(_.wallReading)

  override def nameOf(pane: ArrivalPane): (String, Seq[String]) =
    session(pane).fold(super.nameOf(pane)) { session =>
      session.name(originOf(0L))
      (session.id.text, session.merged.map(_.text))
    }

  private def originOf(row: Long): Long = if (rules.window.gap.isDefined) 0L else PaneId.origin(ids.batch, row)

  override def ownClock: Option[Long] = Option.when(clock.isOwn)(clock.now)

  override def open: Iterator[ArrivalPane] = all.map(pane)

  override def countOpen: Long = sessions.size.toLong

  override def isEmpty: Boolean = !clock.isOwn && sessions.isEmpty

  override def nextClose: Long =
    if (sessions.isEmpty) Long.MaxValue else clock.whenDue(rules.closeDue(sessions(0).end))

  override def toBytes: Array[Byte] = {
    if (ids.kept) sessions.foreach(_.name(originOf(0L)))
    val open = sessions.toBytes(counted, ids.kept)
    val slots = all.map(s => kept.get(s.first)).toVector
    BytesOfKey(clock, atMost = 8 + 4 + open.length + slots.map(s => 10 * (s.length + 1)).sum) { buffer =>
      buffer.putLong(rows)
      BytesOfKey.putPart(buffer, open)
      slots.foreach { of =>
        Varint.putSigned(buffer, of.length.toLong)
        of.foreach(Varint.putSigned(buffer, _))
      }
    }
  }

  private def all: Iterator[OpenSessions.Session] = (0 until sessions.size).iterator.map(sessions(_))

  private def session(of: ArrivalPane): Option[OpenSessions.Session] =
    current.filter(_.first == of.start).orElse(all.find(_.first == of.start))

  private def pane(session: OpenSessions.Session) = ArrivalPane(session.first, session.first, session.end)
}

/** True if sessions have ids, and at what point they get them.
  *
  * @param atOnce
  *   whether with their first row, because they may fire within the batch
  * @param batch
  *   the number of the batch
  */
final case class SessionIds(kept: Boolean, atOnce: Boolean, batch: Long)

object SessionIds {
  val none: SessionIds = SessionIds(kept = false, atOnce = false, 0L)
}

object SessionsOfKey {
  def empty(rules: SessionRules, joins: Boolean, counted: Boolean, ids: SessionIds, clock: KeyClock): SessionsOfKey =
    new SessionsOfKey(
      rules,
      joins,
      counted,
      ids,
      clock,
      0L,
      OpenSessions.empty,
      OpenSessions.empty,
      new java.util.HashMap()
    )

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
  ): SessionsOfKey = {
    val buffer = BytesOfKey.behind(clock, bytes)
    val rows = buffer.getLong
    val open = BytesOfKey.takePart(buffer)
    val sessions = OpenSessions.fromBytes(open, counted, ids.kept)
    val slotsByStart = new java.util.HashMap[Long, Array[Long]]()
    sessions.foreach { s =>
      val slots = Array.fill(Varint.getSigned(buffer).toInt)(Varint.getSigned(buffer))
      slotsByStart.put(s.first, slots)
    }
    val before = OpenSessions.fromBytes(open, counted, ids.kept)
    new SessionsOfKey(rules, joins, counted, ids, clock, rows, sessions, before, slotsByStart)
  }
}
