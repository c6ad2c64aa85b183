package dev.mullion.windows.key

import java.nio.ByteBuffer

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.EarlyFiring
import dev.mullion.windows.spec.TimeMath

/** The properties of a row that determine its panes. One instance serves all rows of a task.
  *
  * @param time
  *   the event time, in microseconds; meaningless for windows of row numbers
  * @param gap
  *   the gap of its session, 0 if it has none
  * @param closes
  *   whether a global window closes after it
  * @param mark
  *   the value whose change closes a global window
  */
final class Arriving(
    var time: Long = 0L,
    var gap: Long = 0L,
    var closes: Boolean = false,
    var mark: Array[Byte] = Array.emptyByteArray
)

/** The treatment of a row. */
sealed trait Fate

object Fate {
  case object InPanes extends Fate
  case object Late extends Fate
  case object InNoWindow extends Fate
}

/** A pane of one key.
  *
  * @param id
  *   its identity in its [[PanesOfKey]]
  */
final case class ArrivalPane(id: Long, start: Long, end: Long)

/** The panes of one key, row by row. The rows of a pane are in slots: one of its own, or several shared with other
  * panes.
  *
  * {{{
  *   row ---> take ---> slots    the slots of the row
  *                  +-> touched  the panes that it is in
  *                  +-> closes   the panes that close with it
  * }}}
  *
  * Mutable, one per current key; `toBytes` is its form in state.
  */
abstract class PanesOfKey {

  /** The number of the key's rows before the next one, as far as it is tracked. */
  def number: Long

  /** The panes that close before `row` is processed: by the row, or by elapsed wall time. */
  def closesBefore(row: Arriving): Iterator[ArrivalPane] = Iterator.empty

  /** Processes the key's next row. */
  def take(row: Arriving): Fate

  /** Closes the pane of the current row after it. */
  def end(): Unit = throw new IllegalStateException("these panes do not close by a condition over their contents")

  /** The slots of the current row. */
  def slots: Array[Long]

  /** The slots that merged into the first slot of the current row, in order of time. */
  def merged: Array[Long] = PanesOfKey.none

  /** The panes of the current row, in order of their starts. */
  def touched: Iterator[ArrivalPane]

  /** The panes that close after the current row, in order. */
  def closes(): Iterator[ArrivalPane]

  /** The panes that close by a clock that has moved to `clock`, in order of their ends. */
  def advance(clock: Long): Iterator[ArrivalPane] = Iterator.empty

  /** The panes that `row`, which is late, would open. */
  def reopened(row: Arriving): Iterator[ArrivalPane] = Iterator.empty

  /** The slots of a pane. */
  def slotsOf(pane: ArrivalPane): Array[Long]

  /** True if a slot is new since the last read, so that state has none of it: `false` where that is unknown. */
  def isNew(slot: Long): Boolean

  /** Forgets a closed pane. Returns the slots that no other pane needs. */
  def forget(pane: ArrivalPane): Array[Long]

  /** The number of firings of a pane, which is the seq of its next firing. */
  def fired(pane: ArrivalPane): Int

  /** The panes that fire because the current row reaches their row count, in order of their starts. */
  def full: Iterator[ArrivalPane] = Iterator.empty

  /** Records a firing of a pane. */
  def fire(pane: ArrivalPane): Unit

  /** The id of a pane among those of its key, and the ids of panes merged into it since it opened or last fired. */
  def nameOf(pane: ArrivalPane): (String, Seq[String]) = (PaneId.ofWindow(pane.start, pane.end), Nil)

  /** The panes that fire early now. */
  def early(firing: EarlyFiring): Seq[ArrivalPane] = Nil

  /** By the stream's clock: the readings of the pane that fires early first, if one waits. */
  def firstReadings(firing: EarlyFiring): Option[(Long, Long)] = None

  /** By the stream's clock: the wall clock when a pane opened or last fired. */
  def firedAt(pane: ArrivalPane): Option[Long] = None

  def open: Iterator[ArrivalPane]

  /** The panes that close at the end of the input: also windows without rows before the last one with rows. */
  def openAtEnd: Iterator[ArrivalPane] = open

  /** True if a closing pane has had rows. */
  def hadRows(pane: ArrivalPane): Boolean = true

  /** The reading of the key's own clock, if it has one. */
  def ownClock: Option[Long] = None

  def countOpen: Long = open.size.toLong

  /** True if the key needs no state. */
  def isEmpty: Boolean

  /** The close time of the next pane: by the batch's clock, or by the wall clock where the key's own follows that. */
  def nextClose: Long = Long.MaxValue

  def toBytes: Array[Byte]
}

object PanesOfKey {
  val none: Array[Long] = Array.emptyLongArray
}

/** The event clock of a key.
  *
  * {{{
  *   of the stream   its value before the batch makes rows late, and the batch's end closes panes
  *   of the key      the largest time of the rows so far, less a delay: each row may move it, and close panes at once
  * }}}
  *
  * A key's own clock may follow the wall clock, so that panes of a key without rows close:
  *
  * {{{
  *   rows            x  x     x
  *   wall clock      |  |  |  |  |  |  |  |
  *   the key's       --------/~~~~~~~~~~~~~     its reading at the row that moved it last, plus the elapsed time
  * }}}
  *
  * @param delay
  *   the delay of a key's own clock behind its largest time
  * @param now
  *   microseconds; before any row, before all time
  * @param batch
  *   for the stream's clock: that of the batch
  * @param wall
  *   the wall clock, if this clock follows it: that of the batch, or of the last row
  * @param lateBehind
  *   whether a row behind the clock is late even if its pane is open
  */
final class KeyClock private (
    delay: Option[Long],
    var now: Long,
    batch: Option[BatchClock],
    private var wall: Option[Long],
    lateBehind: Boolean
) {

  /** The clock of early firings: a key's own clock ignores the wall clock. */
  def reading: BatchClock = batch.getOrElse(BatchClock(now, now, wall = 0L, rowsCame = true))

  /** True if rows move it. */
  def isOwn: Boolean = delay.isDefined

  def started: Boolean = now != BatchClock.BeforeAllTime

  def followsWall: Boolean = wall.isDefined

  /** The wall clock at this reading, if this clock follows it. */
  def wallReading: Option[Long] = wall

  /** True if a row of time `ts` is late by its time alone; a row at the clock's reading is not. */
  def isAhead(ts: Long): Boolean = lateBehind && started && ts < now

  /** The time at which something due at `due` by this clock is due by the batch's clocks. The end of time is never due.
    */
  def whenDue(due: Long): Long =
    if (due == Long.MaxValue) due else wall.fold(due)(TimeMath.plus(_, TimeMath.minus(due, now)))

  /** The reading after a row of time `ts`. */
  def after(ts: Long): Long = delay match {
    case Some(behind) => Math.max(now, Math.max(TimeMath.minus(ts, behind), BatchClock.BeforeAllTime + 1))
    case None         => now
  }

  /** Processes the time of a row. Returns whether it moved the clock. */
  def see(ts: Long): Boolean = {
    val clock = after(ts)
    val moved = clock > now
    now = clock
    moved
  }

  /** Moves a clock that follows the wall clock by the time since its last reading, which never goes back. */
  def advance(wallNow: Long): Unit = wall.foreach { before =>
    if (wallNow > before) {
      if (started) now = TimeMath.plus(now, TimeMath.minus(wallNow, before))
      wall = Some(wallNow)
    }
  }

  private[windows] def put(buffer: ByteBuffer): Unit = if (isOwn) {
    buffer.putLong(now)
    wall.foreach(buffer.putLong)
  }

  /** Restores the form of `put`, and adds the elapsed time. */
  private[windows] def take(buffer: ByteBuffer): Unit = if (isOwn) {
    now = buffer.getLong
    wall.foreach { reads =>
      val passed = Math.max(0L, TimeMath.minus(reads, buffer.getLong))
      if (started) now = TimeMath.plus(now, passed)
    }
  }
}

object KeyClock {

  /** The clock of the stream, as it was before this batch. */
  def ofStream(batch: BatchClock): KeyClock = new KeyClock(None, batch.before, Some(batch), None, lateBehind = false)

  /** @param wall
    *   the wall clock, if this clock follows it
    */
  def ofKey(delay: Long, now: Long, wall: Option[Long] = None, lateBehind: Boolean = false): KeyClock =
    new KeyClock(Some(delay), now, None, wall, lateBehind)
}
