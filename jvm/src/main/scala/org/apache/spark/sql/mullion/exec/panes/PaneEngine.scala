package org.apache.spark.sql.mullion.exec.panes

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.records.{FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types._

import dev.mullion.windows.rules.{FiringKind, LatePolicy}

/** Keeps the panes of one partition for one batch: applies the batch's rows, then closes and fires what is due. */
trait PaneEngine {

  /** The firings of this batch. Consumes `input` to the end: one partial row for each group, or several (see
    * `WindowProgram.takesSeveralOfGroup`).
    */
  def process(input: Iterator[InternalRow]): Iterator[InternalRow]

  /** True if a row put aside is late, by its key and time (`PaneProgram.lateKey`), once the input is used up. */
  def isLate(row: UnsafeRow): Boolean = true

  /** The engine of one of the operator's windows. */
  def part(window: Int): PaneEngine = this

  /** Every open pane with its aggregates so far: for a look from outside. */
  def openPanes(): Iterator[OpenPane]

  /** The closes of all that is open once the batch is worked on: see [[EndOfInput]]. */
  def remaining(): Iterator[InternalRow] = openPanes().map(_.row)
}

/** An open pane, for a look from outside.
  *
  * @param row
  *   a row of the output, as it would be if the pane closed; it stands only until the next one
  * @param firedAt
  *   the wall clock when it last fired, or opened if it has not, where that is known
  * @param clock
  *   the clock of its key, if that has one
  * @param rows
  *   how many rows it has, where that is known beside its aggregates
  * @param rowsToCome
  *   how many more close it, where it closes by their number
  */
final case class OpenPane(
    row: InternalRow,
    firedAt: Option[Long] = None,
    clock: Option[Long] = None,
    rows: Option[Long] = None,
    rowsToCome: Option[Long] = None
)

/** An engine that is given its partial rows one after another, so that several may share one input. */
private[exec] trait AddingPanes extends PaneEngine {

  /** Applies a partial row; what comes out at once. The row may be reused by the caller, the rows handed out stand only
    * until the next call.
    */
  def add(row: InternalRow): Iterator[InternalRow]

  /** What comes out once all rows are there. */
  def finish(): Iterator[InternalRow]

  override def process(input: Iterator[InternalRow]): Iterator[InternalRow] =
    new Steps.OfEach(input)(add)(finish())
}

/** What a batch did in one partition, and when something falls due next there (microseconds; `PaneCounts.Never` if
  * nothing waits).
  */
final class PaneCounts {
  var panesOpened: Long = 0
  var panesClosed: Long = 0
  private var late: Long = 0
  private var dropped: Long = 0
  var firedEarly: Long = 0
  var firedOnTime: Long = 0
  var firedUpdate: Long = 0
  var firedRunning: Long = 0
  var rowsWithoutTime: Long = 0
  var rowsInNoWindow: Long = 0
  var firedClose: Long = 0

  /** When the clock next closes a pane, or makes one fire `on_time`. */
  var nextClose: Long = PaneCounts.Never
  var nextEarlyEvent: Long = PaneCounts.Never

  /** When a pane next fires early by the wall clock, or closes by it where keys' own clocks go on with that. */
  var nextByWall: Long = PaneCounts.Never

  /** Nothing falls due any more. */
  def nothingDue(): Unit = {
    nextClose = PaneCounts.Never
    nextEarlyEvent = PaneCounts.Never
    nextByWall = PaneCounts.Never
  }

  def rowsLate: Long = late

  /** Late rows that go nowhere. */
  def rowsDropped: Long = dropped

  /** Notes late rows, and what becomes of them. */
  def countLate(rows: Long, policy: LatePolicy): Unit = {
    late += rows
    if (policy == LatePolicy.Drop) dropped += rows
  }

  /** Adds what a part of the work did: all that is counted, and the earliest that falls due. */
  def add(part: PaneCounts): Unit = {
    panesOpened += part.panesOpened
    panesClosed += part.panesClosed
    late += part.late
    dropped += part.dropped
    firedEarly += part.firedEarly
    firedOnTime += part.firedOnTime
    firedUpdate += part.firedUpdate
    firedRunning += part.firedRunning
    rowsWithoutTime += part.rowsWithoutTime
    rowsInNoWindow += part.rowsInNoWindow
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

/** What a partition has in all, kept with its state so that no batch has to count. */
final class PartitionTotals(partition: StatePartition) {
  private val family = partition.family(PartitionTotals.family)
  private val (existed, was) = {
    val stored = family.get(PartitionTotals.key)
    if (stored.isAbsent) (false, (0L, 0L)) else (true, (stored.getLong(0), stored.getLong(1)))
  }

  /** How many panes were open before this batch. */
  def panes: Long = was._1

  /** Notes that no pane is open and no record left, and gives these totals. */
  def clear(): (Long, Long) = add(-was._1, -was._2)

  /** Adds what this batch did, and gives the new totals: panes open, records in state. */
  def add(panes: Long, records: Long): (Long, Long) = {
    val now = (was._1 + panes, was._2 + records)
    if (now != was) {
      val row = UnsafeRow.createFromByteArray(24, 2)
      row.setLong(0, now._1)
      row.setLong(1, now._2)
      if (existed) family.update(PartitionTotals.key, row) else family.insert(PartitionTotals.key, row)
    }
    now
  }
}

object PartitionTotals {

  /** The one key: the number 0. */
  private val key: UnsafeRow = UnsafeRow.createFromByteArray(16, 1)

  val family: FamilySpec = FamilySpec(
    "totals",
    key = new StructType().add("id", IntegerType, nullable = false),
    value = new StructType().add("panes", LongType, nullable = false).add("records", LongType, nullable = false),
    RecordOrder.Unordered,
    countAt = Some(1)
  )
}
