package org.apache.spark.sql.mullion.operator.engine.accumulators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.types.{BooleanType, DataType, IntegerType, LongType}

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.FiringsBegin
import dev.mullion.windows.rules.PaneRules

/** The additional columns of a pane that may fire before it closes, after its accumulator: its number of firings, the
  * clock readings when it opened or last fired, whether it is queued to fire early, its number of rows since, and
  * whether it has fired on time.
  *
  * @param firedAt
  *   the index of the first of them
  */
private[operator] final class PaneNotes(rules: PaneRules, firedAt: Int) {
  private val firesOpen = rules.firesOpen
  private val eventAt = firedAt + 1
  private val wallAt = firedAt + 2
  private val queuedAt = firedAt + 3
  private val rowsAt = firedAt + 4
  private val onTimeAt = firedAt + 5

  def open(pane: InternalRow, clock: BatchClock): Unit = if (firesOpen) {
    pane.setInt(firedAt, 0)
    read(pane, clock)
    pane.setBoolean(queuedAt, false)
    pane.setLong(rowsAt, 0L)
    pane.setBoolean(onTimeAt, false)
  }

  /** Records a firing. */
  def fire(pane: InternalRow, clock: BatchClock): Unit = {
    pane.setInt(firedAt, fired(pane) + 1)
    read(pane, clock)
    pane.setLong(rowsAt, 0L)
  }

  private def read(pane: InternalRow, clock: BatchClock): Unit = {
    pane.setLong(eventAt, clock.now)
    pane.setLong(wallAt, clock.wall)
  }

  /** Adopts changed firing rules: see [[FiringsBegin]]. */
  def beginAgain(pane: InternalRow, begin: FiringsBegin): Unit = {
    pane.setLong(rowsAt, begin.rowsSince(rows(pane)))
    pane.setBoolean(onTimeAt, begin.wasOnTime(wasOnTime(pane)))
  }

  def fired(pane: InternalRow): Int = if (firesOpen) pane.getInt(firedAt) else 0

  def eventReading(pane: InternalRow): Long = pane.getLong(eventAt)

  def wallReading(pane: InternalRow): Long = pane.getLong(wallAt)

  def isQueued(pane: InternalRow): Boolean = pane.getBoolean(queuedAt)

  def setQueued(pane: InternalRow, queued: Boolean): Unit = pane.setBoolean(queuedAt, queued)

  def rows(pane: InternalRow): Long = pane.getLong(rowsAt)

  def addRows(pane: InternalRow, more: Long): Unit = pane.setLong(rowsAt, rows(pane) + more)

  def wasOnTime(pane: InternalRow): Boolean = pane.getBoolean(onTimeAt)

  def setOnTime(pane: InternalRow): Unit = pane.setBoolean(onTimeAt, true)
}

private[operator] object PaneNotes {
  def types(rules: PaneRules): Seq[DataType] = typesIf(rules.firesOpen)

  def typesIf(firesOpen: Boolean): Seq[DataType] =
    if (firesOpen) Seq(IntegerType, LongType, LongType, BooleanType, LongType, BooleanType) else Nil

  /** Those of a pane without records, for the first batch under rules that require them. */
  def asIfFired(clock: BatchClock): Seq[Literal] =
    Seq(Literal(0), Literal(clock.now), Literal(clock.wall), Literal(false), Literal(0L), Literal(false))
}
