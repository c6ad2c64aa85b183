package dev.mullion.windows.key.session

import java.nio.ByteBuffer

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.{FiringsBegin, PaneId, PanesOfKey, Readings}
import dev.mullion.windows.rules.{EarlyFiring, FiringKind}
import dev.mullion.windows.sets.Varint

/** The open sessions of one key, in order of time. No two of them touch, so they are also in order of their ends, and
  * the first ones close first.
  *
  * {{{
  *   open        |----|       |--|           |---|
  *   add                  |-------|                    touches the second and merges with it
  *   open        |----|   |-------|          |---|
  * }}}
  *
  * Mutable, one per current key; `toBytes`/`fromBytes` is its form in state. Times are microseconds.
  */
class OpenSessions private[key] (protected val sessions: java.util.ArrayList[OpenSessions.Session]) {
  import OpenSessions.Session

  // The index of the first session. Moving all others for each close was the dominant cost for a key with a hundred
  // thousand sessions.
  protected var head = 0

  def isEmpty: Boolean = size == 0

  def size: Int = sessions.size - head

  def apply(i: Int): Session = sessions.get(head + i)

  def foreach(use: Session => Unit): Unit = iterator.foreach(use)

  /** In order of time. */
  def iterator: Iterator[Session] = Iterator.range(0, size).map(apply)

  /** True if a session of this set touches `[first, end]`, both inclusive. */
  def touches(first: Long, end: Long): Boolean = {
    val i = reaching(first)
    i < sessions.size && sessions.get(i).first <= end
  }

  /** Adds a session, merged with all sessions that it touches. `on_time` refers to an end: a session with a later end
    * has yet to fire on time, and one with the same end as an `on_time` session has fired.
    *
    * @param rows
    *   its number of rows
    * @param clock
    *   of the batch, for a new session
    * @param absorb
    *   called with each existing session that becomes part of the result, in order of time, before it changes
    * @return
    *   the resulting session. It keeps the id of the earliest session that was open before the batch, and records the
    *   ids of the others
    */
  def add(first: Long, end: Long, rows: Long, clock: BatchClock)(absorb: Session => Unit): Session = {
    val from = reaching(first)
    var to = from
    while (to < sessions.size && sessions.get(to).first <= end) { absorb(sessions.get(to)); to += 1 }
    if (to == from) {
      val session = new Session(first, end, isOld = false, 0, clock.now, clock.wall, rows, wasOnTime = false)
      sessions.add(from, session)
      session
    } else merge(from, to, first, end, rows)
  }

  /** Merges the sessions `[from, to)` of the list and `rows` rows, of which there is at least one, into one. */
  protected def merge(from: Int, to: Int, first: Long, end: Long, rows: Long): Session =
    if (to == from + 1) {
      val session = sessions.get(from)
      session.first = Math.min(first, session.first)
      session.wasOnTime &= end <= session.end
      session.end = Math.max(end, session.end)
      session.rows += rows
      session
    } else {
      val touched = sessions.subList(from, to)
      // The survivor is the earliest pane that was open before the batch, whatever the order of arrival.
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

  def removeFirst(): Unit = {
    head += 1
    if (2 * head >= sessions.size) {
      sessions.subList(0, head).clear()
      head = 0
    }
  }

  /** The session that is due first among those that wait to fire early. */
  def firstToFire(early: EarlyFiring): Option[Session] = {
    var earliest = Option.empty[Session]
    foreach(s => if (s.waits(early) && earliest.forall(s.isBefore)) earliest = Some(s))
    earliest
  }

  /** Adopts firing rules that begin with a batch: see [[FiringsBegin]]. */
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
    *   whether panes fire early, so that their firings are stored
    * @param withIds
    *   whether panes have ids, so that these are stored
    */
  def toBytes(withFirings: Boolean, withIds: Boolean = false): Array[Byte] = {
    val buffer = ByteBuffer.allocate(20 * size + bytesOfFirings(withFirings, withIds))
    var previous = 0L
    foreach { s =>
      Varint.putSigned(buffer, s.first - previous)
      Varint.putSigned(buffer, s.end - s.first)
      previous = s.end
      s.put(buffer, withFirings, withIds)
    }
    java.util.Arrays.copyOf(buffer.array, buffer.position())
  }

  /** The maximum size of the results of `Session.put`. */
  protected def bytesOfFirings(withFirings: Boolean, withIds: Boolean): Int =
    (if (withFirings) 36 * size else 0) + (if (withIds) iterator.map(s => PaneId.bytes(s.merged)).sum else 0)

  /** The index of the first session that ends at or after `t`. Rows are mostly in order, so the search begins at the
    * end.
    */
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
    *   its number of firings
    * @param eventReading
    *   of the event clock when it opened or last fired, and so `wallReading` (see [[EarlyFiring]])
    * @param rows
    *   its number of rows since
    * @param wasOnTime
    *   whether it has fired `on_time` at this end
    */
  class Session(
      var first: Long,
      var end: Long,
      val isOld: Boolean,
      var fired: Int,
      var eventReading: Long,
      var wallReading: Long,
      var rows: Long,
      var wasOnTime: Boolean
  ) extends Readings {

    /** The id of the pane, once it has one. */
    var id: PaneId = PaneId.none

    /** The panes merged into it since it opened or last fired, in order. */
    var merged: Vector[PaneId] = Vector.empty

    /** The places of its rows, where rows are processed one by one: see [[PanesOfKey]]. */
    var slots: Array[Long] = PanesOfKey.none

    /** Assigns an id, unless it has one. */
    def name(origin: Long): Unit = if (id eq PaneId.none) id = PaneId(first, origin)

    /** A pane without an id was never visible, so it is not reported. */
    private[OpenSessions] def takeIn(other: Session): Unit = if (other.id ne PaneId.none)
      merged = (merged ++ (other.id +: other.merged)).sortWith(_ isBefore _)

    /** True if it fires early in the batch of `clock`. */
    def isDue(early: EarlyFiring, clock: BatchClock): Boolean =
      waits(early) && early.isDue(eventReading, wallReading, clock)

    /** Records a firing in the batch of `clock`. */
    def fire(kind: FiringKind, clock: BatchClock): Unit = {
      fired += 1
      eventReading = clock.now
      wallReading = clock.wall
      rows = 0
      merged = Vector.empty
      if (kind == FiringKind.OnTime) wasOnTime = true
    }

    /** After `on_time` a pane fires for its rows, and not at intervals. */
    private[OpenSessions] def waits(early: EarlyFiring): Boolean = !wasOnTime && (early.unchanged || rows > 0)

    /** Writes its firings and its ids. */
    private[key] def put(buffer: ByteBuffer, withFirings: Boolean, withIds: Boolean): Unit = {
      if (withFirings) {
        Varint.putSigned(buffer, (fired.toLong << 1) | (if (wasOnTime) 1 else 0))
        Varint.putSigned(buffer, rows)
        buffer.putLong(eventReading).putLong(wallReading)
      }
      if (withIds) {
        PaneId.put(buffer, first, id)
        Varint.putSigned(buffer, merged.length.toLong)
        merged.foreach(PaneId.put(buffer, first, _))
      }
    }

    /** Reads the result of `put`. */
    private[key] def take(buffer: ByteBuffer, withFirings: Boolean, withIds: Boolean): Unit = {
      if (withFirings) {
        val firedAndOnTime = Varint.getSigned(buffer)
        fired = (firedAndOnTime >> 1).toInt
        wasOnTime = (firedAndOnTime & 1) == 1
        rows = Varint.getSigned(buffer)
        eventReading = buffer.getLong()
        wallReading = buffer.getLong()
      }
      if (withIds) {
        id = PaneId.get(buffer, first)
        merged = Vector.fill(Varint.getSigned(buffer).toInt)(PaneId.get(buffer, first))
      }
    }

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
      val session = new Session(first, end, isOld = true, fired = 0, 0L, 0L, rows = 0L, wasOnTime = false)
      session.take(buffer, withFirings, withIds)
      set.sessions.add(session)
    }
    set
  }
}
