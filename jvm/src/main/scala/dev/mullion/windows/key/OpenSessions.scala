package dev.mullion.windows.key

import java.nio.ByteBuffer

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.{EarlyFiring, FiringKind}
import dev.mullion.windows.sets.Varint

/** The open sessions of one key, in order of time. No two of them touch, so they are in order of their ends, too, and
  * those that close are the first ones.
  *
  * {{{
  *   open        |----|       |--|           |---|
  *   add                  |-------|                    touches the second, and becomes one with it
  *   open        |----|   |-------|          |---|
  * }}}
  *
  * Mutable, one per key being worked on; `toBytes`/`fromBytes` is its form in state. Times are microseconds.
  */
final class OpenSessions private (private val sessions: java.util.ArrayList[OpenSessions.Session]) {
  import OpenSessions.Session

  // Where the first one is: those before it are gone. To move all others up for each that closes took a key of a
  // hundred thousand sessions most of its time.
  private var head = 0

  def isEmpty: Boolean = size == 0

  def size: Int = sessions.size - head

  def apply(i: Int): Session = sessions.get(head + i)

  def foreach(use: Session => Unit): Unit = iterator.foreach(use)

  /** In order of time. */
  def iterator: Iterator[Session] = Iterator.range(0, size).map(apply)

  /** Whether a session of this set touches `[first, end]`, its ends counted in. */
  def touches(first: Long, end: Long): Boolean = {
    val i = reaching(first)
    i < sessions.size && sessions.get(i).first <= end
  }

  /** Adds a session, made one with all that it touches. What has been `on_time` was so at its end: one that ends later
    * now has yet to be, and one that ends where a session did that was `on_time` has been.
    *
    * @param rows
    *   how many rows are in it
    * @param clock
    *   of the batch, for a session that is new
    * @param absorb
    *   is told the start of each session that was there and is part of the one that now is, in order of time
    * @return
    *   the session that holds it now. It goes on under the id of the one that was there before the batch, of several
    *   the earliest, and notes the ids of the others
    */
  def add(first: Long, end: Long, rows: Long, clock: BatchClock)(absorb: Long => Unit): Session = {
    val from = reaching(first)
    var to = from
    while (to < sessions.size && sessions.get(to).first <= end) { absorb(sessions.get(to).first); to += 1 }
    if (to == from) {
      val session = new Session(first, end, isOld = false, 0, clock.now, clock.wall, rows, wasOnTime = false)
      sessions.add(from, session)
      session
    } else if (to == from + 1) {
      val session = sessions.get(from)
      session.first = Math.min(first, session.first)
      session.wasOnTime &= end <= session.end
      session.end = Math.max(end, session.end)
      session.rows += rows
      session
    } else {
      val touched = sessions.subList(from, to)
      // The pane goes on that was there before the batch; of several the earliest, whatever the order of arrival.
      val survivor = touched.stream.filter(_.isOld).findFirst.orElse(touched.get(0))
      val start = Math.min(first, touched.get(0).first)
      val last = touched.get(touched.size - 1)
      survivor.wasOnTime = last.wasOnTime && end <= last.end
      survivor.end = Math.max(end, last.end)
      survivor.first = start
      survivor.rows = rows + touched.stream.mapToLong(_.rows).sum
      touched.forEach(other => if (other ne survivor) survivor.takeIn(other))
      touched.clear()
      sessions.add(from, survivor)
      survivor
    }
  }

  /** Removes the first session. */
  def removeFirst(): Unit = {
    head += 1
    if (2 * head >= sessions.size) {
      sessions.subList(0, head).clear()
      head = 0
    }
  }

  /** The one that falls due first among those that wait to fire early. */
  def firstToFire(early: EarlyFiring): Option[Session] = {
    var found = Option.empty[Session]
    foreach(s => if (s.waits(early) && found.forall(s.isBefore)) found = Some(s))
    found
  }

  /** Notes of sessions what rules of firing want that begin with a batch: see [[FiringsBegin]]. */
  def begin(begin: FiringsBegin): Unit = foreach { s =>
    if (begin.fired) {
      s.rows = begin.rowsSince(s.rows)
      s.wasOnTime = begin.wasOnTime(s.wasOnTime)
    } else {
      s.eventReading = begin.clock.now
      s.wallReading = begin.clock.wall
    }
  }

  /** @param withFirings
    *   whether panes fire early, so that what is known of their firings is kept
    * @param withIds
    *   whether panes have ids, so that these are kept
    */
  def toBytes(withFirings: Boolean, withIds: Boolean = false): Array[Byte] = {
    val ids = if (withIds) iterator.map(s => PaneId.bytes(s.merged)).sum else 0
    val buffer = ByteBuffer.allocate(size * (if (withFirings) 56 else 20) + ids)
    var previous = 0L
    foreach { s =>
      Varint.putSigned(buffer, s.first - previous)
      Varint.putSigned(buffer, s.end - s.first)
      previous = s.end
      if (withFirings) {
        Varint.putSigned(buffer, (s.fired.toLong << 1) | (if (s.wasOnTime) 1 else 0))
        Varint.putSigned(buffer, s.rows)
        buffer.putLong(s.eventReading).putLong(s.wallReading)
      }
      if (withIds) {
        PaneId.put(buffer, s.first, s.id)
        Varint.putSigned(buffer, s.merged.length.toLong)
        s.merged.foreach(PaneId.put(buffer, s.first, _))
      }
    }
    java.util.Arrays.copyOf(buffer.array, buffer.position())
  }

  /** Where the first session is that ends at or after `t`: rows come mostly in order, so look at the end first. */
  private def reaching(t: Long): Int =
    if (isEmpty || sessions.get(sessions.size - 1).end < t) sessions.size
    else {
      var low = head
      var high = sessions.size - 1
      while (low < high) {
        val middle = (low + high) >>> 1
        if (sessions.get(middle).end < t) low = middle + 1 else high = middle
      }
      low
    }
}

object OpenSessions {

  /** An open session.
    *
    * @param isOld
    *   whether it was open before this batch
    * @param fired
    *   how often it has fired
    * @param eventReading
    *   of the event clock when it opened or last fired, and so `wallReading` (see [[EarlyFiring]])
    * @param rows
    *   how many came since
    * @param wasOnTime
    *   whether it has fired `on_time` at this end
    */
  final class Session(
      var first: Long,
      var end: Long,
      val isOld: Boolean,
      var fired: Int,
      var eventReading: Long,
      var wallReading: Long,
      var rows: Long,
      var wasOnTime: Boolean
  ) extends Readings {

    /** What the pane is called, once it is. */
    var id: PaneId = PaneId.none

    /** The panes that became part of it since it opened or last fired, in order. */
    var merged: Vector[PaneId] = Vector.empty

    /** Gives it an id, unless it has one. */
    def name(origin: Long): Unit = if (id eq PaneId.none) id = PaneId(first, origin)

    /** Only of what has an id somebody may know. */
    private[OpenSessions] def takeIn(other: Session): Unit = if (other.id ne PaneId.none)
      merged = (merged ++ (other.id +: other.merged)).sortWith(_ isBefore _)

    /** Whether it fires early in the batch of `clock`. */
    def isDue(early: EarlyFiring, clock: BatchClock): Boolean =
      waits(early) && early.isDue(eventReading, wallReading, clock)

    /** Notes that it fired in the batch of `clock`. */
    def fire(kind: FiringKind, clock: BatchClock): Unit = {
      fired += 1
      eventReading = clock.now
      wallReading = clock.wall
      rows = 0
      merged = Vector.empty
      if (kind == FiringKind.OnTime) wasOnTime = true
    }

    /** After `on_time` it fires for its rows, and not at intervals. */
    private[OpenSessions] def waits(early: EarlyFiring): Boolean = !wasOnTime && (early.unchanged || rows > 0)

    override def toString: String = s"[$first, $end)"
  }

  def empty: OpenSessions = new OpenSessions(new java.util.ArrayList())

  def fromBytes(bytes: Array[Byte], withFirings: Boolean, withIds: Boolean = false): OpenSessions = {
    val set = empty
    val buffer = ByteBuffer.wrap(bytes)
    var previous = 0L
    while (buffer.hasRemaining) {
      val first = previous + Varint.getSigned(buffer)
      val end = first + Varint.getSigned(buffer)
      previous = end
      val firedAndOnTime = if (withFirings) Varint.getSigned(buffer) else 0L
      val rows = if (withFirings) Varint.getSigned(buffer) else 0L
      val (event, wall) = if (withFirings) (buffer.getLong(), buffer.getLong()) else (0L, 0L)
      val session =
        new Session(first, end, isOld = true, (firedAndOnTime >> 1).toInt, event, wall, rows, (firedAndOnTime & 1) == 1)
      if (withIds) {
        session.id = PaneId.get(buffer, first)
        session.merged = Vector.fill(Varint.getSigned(buffer).toInt)(PaneId.get(buffer, first))
      }
      set.sessions.add(session)
    }
    set
  }
}
