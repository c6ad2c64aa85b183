package dev.mullion.windows.key

import java.nio.ByteBuffer

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.EarlyFiring
import dev.mullion.windows.spec.TimeMath

/** What a row says that decides which panes it is in. One is used for all rows of a task.
  *
  * @param time
  *   the event time, in microseconds; meaningless for windows of row numbers
  * @param gap
  *   the gap of its session, 0 if it has none
  * @param closes
  *   whether a global window closes after it
  * @param mark
  *   the value at a change of which a global window closes
  */
final class Arriving(
    var time: Long = 0L,
    var gap: Long = 0L,
    var closes: Boolean = false,
    var mark: Array[Byte] = Array.emptyByteArray
)

/** What becomes of a row. */
sealed trait Fate

object Fate {
  case object InPanes extends Fate
  case object Late extends Fate
  case object InNoWindow extends Fate
}

/** A pane of one key.
  *
  * @param id
  *   what its [[PanesOfKey]] knows it by
  */
final case class ArrivalPane(id: Long, start: Long, end: Long)

/** The panes of one key, as its rows come one after another. A pane is kept in slots: one of its own, or several that
  * it shares with others.
  *
  * {{{
  *   row ---> take ---> slots    where the row is kept
  *                  +-> touched  the panes that it is in
  *                  +-> closes   the panes that close with it
  * }}}
  *
  * Mutable, one per key being worked on; `toBytes` is its form in state.
  */
abstract class PanesOfKey {

  /** How many rows of the key came before the next one, as far as is known. */
  def number: Long

  /** The panes that close before `row` is taken: by the row, or by wall time that has passed. */
  def closesBefore(row: Arriving): Iterator[ArrivalPane] = Iterator.empty

  /** Takes the key's next row. */
  def take(row: Arriving): Fate

  /** Where the row just taken is kept. */
  def slots: Array[Long]

  /** Slots that became one with the first slot of the row just taken, in order of time. */
  def merged: Array[Long] = PanesOfKey.none

  /** The panes of the row just taken, in order of their starts. */
  def touched: Iterator[ArrivalPane]

  /** The panes that close after the row just taken, in order. */
  def closes(): Iterator[ArrivalPane]

  /** The panes that close by a clock that has moved to `clock`, in order of their ends. */
  def advance(clock: Long): Iterator[ArrivalPane] = Iterator.empty

  /** The panes that `row`, which is late, would open. */
  def reopened(row: Arriving): Iterator[ArrivalPane] = Iterator.empty

  /** Where the rows of a pane are kept. */
  def slotsOf(pane: ArrivalPane): Array[Long]

  /** Whether a slot came into being since this was read, so that there is nothing of it in state: `false` where that is
    * not known.
    */
  def isNew(slot: Long): Boolean

  /** Forgets a pane that has closed; gives the slots that no other pane needs. */
  def forget(pane: ArrivalPane): Array[Long]

  /** How often a pane has fired, which is the seq of its next firing. */
  def fired(pane: ArrivalPane): Int

  /** The panes that fire for the row just taken, which makes as many as they wait for, in order of their starts. */
  def full: Iterator[ArrivalPane] = Iterator.empty

  /** Notes that a pane fired. */
  def fire(pane: ArrivalPane): Unit

  /** What tells a pane from every other of its key, and what those were called that became part of it since it opened
    * or last fired.
    */
  def nameOf(pane: ArrivalPane): (String, Seq[String]) = (PaneId.ofWindow(pane.start, pane.end), Nil)

  /** The panes that fire early now. */
  def early(firing: EarlyFiring): Seq[ArrivalPane] = Nil

  /** By the stream's clock: the readings of the pane that fires early first, if one waits. */
  def firstReadings(firing: EarlyFiring): Option[(Long, Long)] = None

  /** By the stream's clock: what the wall clock read when a pane last fired, or opened if it has not. */
  def firedAt(pane: ArrivalPane): Option[Long] = None

  def open: Iterator[ArrivalPane]

  /** What closes where the input ends: windows without rows too, before the last one that has some. */
  def openAtEnd: Iterator[ArrivalPane] = open

  /** Whether a pane that closes has had rows. */
  def hadRows(pane: ArrivalPane): Boolean = true

  /** Where the key's own clock stands, if it has one. */
  def ownClock: Option[Long] = None

  def countOpen: Long = open.size.toLong

  /** Whether nothing of the key need be known. */
  def isEmpty: Boolean

  /** When the next pane closes: by the batch's clock, or by the wall clock where the key's own goes on with that. */
  def nextClose: Long = Long.MaxValue

  def toBytes: Array[Byte]
}

object PanesOfKey {
  val none: Array[Long] = Array.emptyLongArray
}

/** The event clock of a key.
  *
  * {{{
  *   of the stream   what it was before the batch decides which rows are late, and the batch's end closes panes
  *   of the key      the largest time of the rows so far, less a delay: each row may move it, and close panes at once
  * }}}
  *
  * A key's own clock may go on with the wall clock, so that panes of a key without rows close:
  *
  * {{{
  *   rows            x  x     x
  *   wall clock      |  |  |  |  |  |  |  |
  *   the key's       --------/~~~~~~~~~~~~~     from its reading at the row that moved it last, as much as time has passed
  * }}}
  *
  * @param delay
  *   how far a key's own clock is behind its largest time
  * @param now
  *   microseconds; before any row, before all time
  * @param batch
  *   where it is the stream's: that of the batch
  * @param wall
  *   what the wall clock reads in the batch, if it goes on with that
  * @param lateBehind
  *   whether a row that is behind it is late, though a pane of the row is open
  */
final class KeyClock private (
    delay: Option[Long],
    var now: Long,
    batch: Option[BatchClock],
    wall: Option[Long],
    lateBehind: Boolean
) {

  /** What panes that fire early go by: its own clock has no wall clock beside it. */
  def reading: BatchClock = batch.getOrElse(BatchClock(now, now, wall = 0L, rowsCame = true))

  /** Whether rows move it. */
  def isOwn: Boolean = delay.isDefined

  def started: Boolean = now != BatchClock.BeforeAllTime

  def followsWall: Boolean = wall.isDefined

  /** Whether a row of time `ts` is late by its time alone: one as late as the clock is not. */
  def isAhead(ts: Long): Boolean = lateBehind && started && ts < now

  /** When something falls due that is due at `due` by this clock: by the wall clock, if it goes on with that. What is
    * due at the end of time never is.
    */
  def whenDue(due: Long): Long =
    if (due == Long.MaxValue) due else wall.fold(due)(TimeMath.plus(_, TimeMath.minus(due, now)))

  /** Takes the time of a row; whether that moved it. */
  def see(ts: Long): Boolean = delay.exists { behind =>
    val clock = Math.max(TimeMath.minus(ts, behind), BatchClock.BeforeAllTime + 1)
    val moved = clock > now
    if (moved) now = clock
    moved
  }

  private[windows] def put(buffer: ByteBuffer): Unit = if (isOwn) {
    buffer.putLong(now)
    wall.foreach(buffer.putLong)
  }

  /** What `put` has written, and the time that has passed since. */
  private[windows] def take(buffer: ByteBuffer): Unit = if (isOwn) {
    now = buffer.getLong
    wall.foreach { reads =>
      val passed = Math.max(0L, TimeMath.minus(reads, buffer.getLong))
      if (started) now = TimeMath.plus(now, passed)
    }
  }
}

object KeyClock {

  /** The clock of the stream: as it was before this batch. */
  def ofStream(batch: BatchClock): KeyClock = new KeyClock(None, batch.before, Some(batch), None, lateBehind = false)

  /** @param wall
    *   what the wall clock reads, if it goes on with that
    */
  def ofKey(delay: Long, now: Long, wall: Option[Long] = None, lateBehind: Boolean = false): KeyClock =
    new KeyClock(Some(delay), now, None, wall, lateBehind)
}
