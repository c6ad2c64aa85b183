package dev.mullion.windows.key.session

import dev.mullion.windows.key.{ArrivalPane, Arriving, BytesOfKey, Fate, KeyClock, PaneId, PanesOfKey}
import dev.mullion.windows.rules.{EarlyFiring, FiringKind, PaneRules}
import dev.mullion.windows.sets.Varint

/** The sessions of one key. A session has a slot that is numbered by its first row. When sessions merge, their slots
  * merge, or the session has several.
  *
  * @param counted
  *   whether panes fire before they close
  * @param ids
  *   whether panes have ids, and at what point they get them
  */
abstract class SessionsOfKey(
    rules: PaneRules,
    counted: Boolean,
    ids: SessionIds,
    clock: KeyClock,
    private var rows: Long,
    sessions: OpenSessions
) extends PanesOfKey {
  private val rowsBefore = rows
  private var current = Option.empty[OpenSessions.Session]

  /** The slots that have merged into the first one of the current row. */
  protected var joined: Array[Long] = PanesOfKey.none

  /** The gap of all rows, if they share one. */
  protected def fixedGap: Option[Long]

  /** True if two sessions of a key may open at the same time, so that ids need more than that time. */
  protected def sharesOpenings: Boolean

  /** True if a row is late, by its time and the open sessions.
    *
    * @param before
    *   the clock before the row
    */
  protected def isLate(row: Arriving, gap: Long, before: Long): Boolean

  /** Adds a row that is not late, and sets `joined`. Returns the row's session.
    *
    * @param slot
    *   the slot of a new session
    */
  protected def enter(row: Arriving, gap: Long, slot: Long): OpenSessions.Session

  override def number: Long = rows

  override def closesBefore(row: Arriving): Iterator[ArrivalPane] =
    if (clock.followsWall) advance(clock.now) else Iterator.empty

  override def take(row: Arriving): Fate = {
    val isBehind = clock.isAhead(row.time)
    val gap = fixedGap.getOrElse(row.gap)
    val before = clock.now
    clock.see(row.time)
    if (gap <= 0) Fate.InNoWindow
    else if (isBehind || isLate(row, gap, before)) Fate.Late
    else {
      val session = enter(row, gap, rows)
      if (ids.atOnce) session.name(originOf(rows - rowsBefore))
      current = Some(session)
      rows += 1
      Fate.InPanes
    }
  }

  override def slots: Array[Long] = current.fold(PanesOfKey.none)(_.slots.take(1))

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

  override def slotsOf(pane: ArrivalPane): Array[Long] = session(pane).fold(PanesOfKey.none)(_.slots)

  override def isNew(slot: Long): Boolean = slot >= rowsBefore

  override def forget(pane: ArrivalPane): Array[Long] = {
    val slots = sessions(0).slots
    sessions.removeFirst()
    slots
  }

  override def fired(pane: ArrivalPane): Int = session(pane).fold(0)(_.fired)

  override def fire(pane: ArrivalPane): Unit = session(pane).foreach(_.fire(FiringKind.Early, clock.reading))

  override def early(firing: EarlyFiring): Seq[ArrivalPane] =
    sessions.iterator.filter(_.isDue(firing, clock.reading)).map(pane).toVector

  override def firstReadings(firing: EarlyFiring): Option[(Long, Long)] =
    sessions.firstToFire(firing).map(s => (s.eventReading, s.wallReading))

  override def firedAt(pane: ArrivalPane): Option[Long] =
    if (!counted || clock.isOwn) None else session(pane).map(_.wallReading)

  override def nameOf(pane: ArrivalPane): (String, Seq[String]) =
    session(pane).fold(super.nameOf(pane)) { session =>
      session.name(originOf(0L))
      (session.id.text, session.merged.map(_.text))
    }

  private def originOf(row: Long): Long = if (sharesOpenings) PaneId.origin(ids.batch, row) else 0L

  override def ownClock: Option[Long] = Option.when(clock.isOwn)(clock.now)

  override def open: Iterator[ArrivalPane] = sessions.iterator.map(pane)

  override def countOpen: Long = sessions.size.toLong

  override def isEmpty: Boolean = !clock.isOwn && sessions.isEmpty

  override def nextClose: Long =
    if (sessions.isEmpty) Long.MaxValue else clock.whenDue(rules.closeDue(sessions(0).end))

  override def toBytes: Array[Byte] = {
    if (ids.kept) sessions.foreach(_.name(originOf(0L)))
    val open = sessions.toBytes(counted, ids.kept)
    val slots = sessions.iterator.map(_.slots).toVector
    BytesOfKey(clock, atMost = 8 + 4 + open.length + slots.map(s => 10 * (s.length + 1)).sum) { buffer =>
      buffer.putLong(rows)
      BytesOfKey.putPart(buffer, open)
      slots.foreach { of =>
        Varint.putSigned(buffer, of.length.toLong)
        of.foreach(Varint.putSigned(buffer, _))
      }
    }
  }

  /** A session's first slot identifies it: several may have one start. */
  private def session(of: ArrivalPane): Option[OpenSessions.Session] =
    current
      .filter(_.slots.headOption.contains(of.id))
      .orElse(sessions.iterator.find(_.slots.headOption.contains(of.id)))

  private def pane(session: OpenSessions.Session) = ArrivalPane(session.slots(0), session.first, session.end)
}

object SessionsOfKey {

  /** The rows of a key so far, and the bytes of its open sessions.
    *
    * @param clock
    *   the clock of the key, which is restored
    * @param create
    *   creates the sessions from their bytes
    */
  private[key] def fromBytes[S <: OpenSessions](clock: KeyClock, bytes: Array[Byte])(
      create: Array[Byte] => S
  ): (Long, S, Array[Byte]) = {
    val buffer = BytesOfKey.behind(clock, bytes)
    val rows = buffer.getLong
    val open = BytesOfKey.takePart(buffer)
    val sessions = create(open)
    sessions.foreach { session =>
      session.slots = Array.fill(Varint.getSigned(buffer).toInt)(Varint.getSigned(buffer))
    }
    (rows, sessions, open)
  }
}

/** True if sessions have ids, and at what point they get them.
  *
  * @param atOnce
  *   whether with their first row, because they may fire within the batch, or open at the same time
  * @param batch
  *   the number of the batch
  */
final case class SessionIds(kept: Boolean, atOnce: Boolean, batch: Long)

object SessionIds {
  val none: SessionIds = SessionIds(kept = false, atOnce = false, 0L)
}
