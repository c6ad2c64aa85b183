package org.apache.spark.sql.mullion.operator.engine

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import dev.mullion.windows.clock.Lateness
import dev.mullion.windows.rules.{FiringKind, LatePolicy}
import dev.mullion.windows.sets.EndCounts

/** Updates the panes of one partition for one batch: applies the batch's rows, then closes and fires due panes. */
trait PaneEngine {

  /** The firings of this batch. Consumes `input` to the end: one partial row per group, or several (see
    * `WindowProgram.takesSeveralOfGroup`).
    */
  def process(input: Iterator[InternalRow]): Iterator[InternalRow]

  /** Makes keys known whose windows close without rows. Called before the rows of the batch. */
  def know(keys: Iterator[UnsafeRow]): Unit = throw new IllegalStateException(s"$this closes no windows without rows")

  /** True if a row put aside is late, by its key and time (`PaneProgram.lateKey`), after the input has been consumed.
    */
  def isLate(row: UnsafeRow): Boolean = true

  /** The engine of one of the operator's windows. */
  def part(window: Int): PaneEngine = this

  /** Every open pane with its aggregates so far, for inspection. */
  def openPanes(): Iterator[OpenPane]

  /** The closes of all open panes after the batch: see [[EndOfInput]]. */
  def remaining(): Iterator[InternalRow] = openPanes().map(_.row)
}

/** An open pane, for inspection.
  *
  * @param row
  *   the output row if the pane closed now, valid until the next one
  * @param firedAt
  *   the wall clock when it opened or last fired, if recorded
  * @param clock
  *   the clock of its key, if that has one
  * @param rows
  *   its number of rows, if recorded apart from its aggregates
  * @param rowsToCome
  *   the number of rows until it closes, if it closes by that
  * @param end
  *   of its window, if that is a time
  */
final case class OpenPane(
    row: InternalRow,
    firedAt: Option[Long] = None,
    clock: Option[Long] = None,
    rows: Option[Long] = None,
    rowsToCome: Option[Long] = None,
    end: Option[Long] = None
)

/** An engine that receives its partial rows one by one, so that several may share an input. */
private[operator] trait AddingPanes extends PaneEngine {

  /** Applies a partial row. Returns immediate output. The caller may reuse the row; returned rows are valid until the
    * next call.
    */
  def add(row: InternalRow): Iterator[InternalRow]

  /** The output after all rows. */
  def finish(): Iterator[InternalRow]

  override def process(input: Iterator[InternalRow]): Iterator[InternalRow] =
    new Iterators.OfEach(input)(add)(finish())
}

/** The counts of a batch in one partition, and the next due times there (microseconds; `PaneCounts.Never` if nothing
  * waits).
  *
  * @param tracksEnds
  *   whether the ends of panes are counted
  */
final class PaneCounts(val tracksEnds: Boolean = false) {

  /** The panes that opened minus those that closed, by the end of their windows. Only if `tracksEnds`. */
  val ends: EndCounts = new EndCounts

  var panesOpened: Long = 0
  var panesClosed: Long = 0
  private var late: Long = 0
  private var dropped: Long = 0
  private var lateBuckets: Array[Long] = Array.emptyLongArray
  var firedEarly: Long = 0
  var firedOnTime: Long = 0
  var firedUpdate: Long = 0
  var firedRunning: Long = 0
  var rowsWithoutTime: Long = 0
  var rowsInNoWindow: Long = 0

  /** Rows that are too far ahead of the wall clock. */
  var rowsAhead: Long = 0
  var firedClose: Long = 0

  /** The next time at which the clock closes a pane, or makes one fire `on_time`. */
  var nextClose: Long = PaneCounts.Never
  var nextEarlyEvent: Long = PaneCounts.Never

  /** The next time at which a pane fires early by the wall clock, or closes by it where keys' own clocks follow that.
    */
  var nextByWall: Long = PaneCounts.Never

  /** Counts a pane that opened. */
  def opened(end: Long): Unit = {
    panesOpened += 1
    opensAt(end)
  }

  /** Counts a pane that closed. */
  def closed(end: Long): Unit = {
    panesClosed += 1
    closesAt(end)
  }

  /** Counts the end of an open pane, but not the pane. */
  def opensAt(end: Long): Unit = if (tracksEnds) ends.add(end)

  /** Reverses `opensAt`. */
  def closesAt(end: Long): Unit = if (tracksEnds) ends.remove(end)

  /** Resets the due times. */
  def nothingDue(): Unit = {
    nextClose = PaneCounts.Never
    nextEarlyEvent = PaneCounts.Never
    nextByWall = PaneCounts.Never
  }

  def rowsLate: Long = late

  /** Late rows without any output. */
  def rowsDropped: Long = dropped

  /** The late rows in the buckets of `Lateness`; empty if there are none. */
  def lateness: Array[Long] = lateBuckets

  /** Counts late rows and their treatment.
    *
    * @param lateness
    *   in microseconds
    */
  def countLate(rows: Long, policy: LatePolicy, lateness: Long): Unit = {
    late += rows
    if (policy == LatePolicy.Drop) dropped += rows
    if (lateBuckets.isEmpty) lateBuckets = new Array[Long](Lateness.Buckets)
    lateBuckets(Lateness.bucket(lateness)) += rows
  }

  /** Adds the counts of a part, and the minimum of the due times. */
  def add(part: PaneCounts): Unit = {
    panesOpened += part.panesOpened
    panesClosed += part.panesClosed
    ends.merge(part.ends)
    late += part.late
    dropped += part.dropped
    if (part.lateBuckets.nonEmpty)
      lateBuckets =
        if (lateBuckets.isEmpty) part.lateBuckets.clone()
        else Array.tabulate(Lateness.Buckets)(i => lateBuckets(i) + part.lateBuckets(i))
    firedEarly += part.firedEarly
    firedOnTime += part.firedOnTime
    firedUpdate += part.firedUpdate
    firedRunning += part.firedRunning
    rowsWithoutTime += part.rowsWithoutTime
    rowsInNoWindow += part.rowsInNoWindow
    rowsAhead += part.rowsAhead
    firedClose += part.firedClose
    nextClose = Math.min(nextClose, part.nextClose)
    nextEarlyEvent = Math.min(nextEarlyEvent, part.nextEarlyEvent)
    nextByWall = Math.min(nextByWall, part.nextByWall)
  }

  def fired(kind: FiringKind, panes: Long = 1): Unit = kind match {
    case FiringKind.Early  => firedEarly += panes
    case FiringKind.OnTime => firedOnTime += panes
    case FiringKind.Update => firedUpdate += panes
    case FiringKind.Close  => firedClose += panes
  }
}

object PaneCounts {
  val Never: Long = Long.MaxValue
}
