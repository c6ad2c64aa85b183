package dev.mullion.windows.key

import java.nio.ByteBuffer

import dev.mullion.windows.sets.Varint

/** The identity of a session among those of its key, from opening to close: its opening time, which does not change
  * when earlier rows move its start.
  *
  * {{{
  *   batch 1    id 20       |------|                         opens with a row at 20
  *   batch 2    id 20   |----------|                         its start has moved
  *   batch 3    id 60                         |------|
  *   batch 4    id 20   |----------------------------|       merged with [60]
  * }}}
  *
  * With one gap for all rows no other session can open at that time: while this one is open it touches it, and after
  * that its row is late. Where rows have their own gaps that does not hold, and the id also has an `origin`. A session
  * gets its id when it can first be visible: after the batch that opens it, or with its first row where each row may
  * fire it.
  *
  * @param opened
  *   microseconds
  * @param origin
  *   0, or the number of the opening at that time: see `PaneId.origin`
  */
final case class PaneId(opened: Long, origin: Long) {

  /** The form of the output. */
  def text: String =
    if (origin == 0) opened.toString
    else {
      val row = origin & PaneId.mostRows
      val batch = (origin >>> PaneId.rowBits) - 1
      if (row == 0) s"$opened@$batch" else s"$opened@$batch.$row"
    }

  private[windows] def isBefore(other: PaneId): Boolean =
    opened < other.opened || (opened == other.opened && origin < other.origin)
}

object PaneId {
  private val rowBits = 31
  private val mostRows = (1L << rowBits) - 1

  /** The id of a session that has none yet, or needs none. */
  val none: PaneId = PaneId(Long.MinValue, Long.MinValue)

  /** The number of an opening: its batch, and its row among the key's rows of that batch, from 0. */
  def origin(batch: Long, row: Long): Long = ((batch + 1) << rowBits) | (row & mostRows)

  /** The id of a pane that its window identifies, unless late rows reopen it. Windows that begin before time share
    * their start.
    */
  def ofWindow(start: Long, end: Long): String =
    if (start == Long.MinValue) ofRange(start, end) else start.toString

  /** The id of a pane whose window shares its start with others. */
  def ofRange(start: Long, end: Long): String = s"$start/$end"

  /** The id of a pane that late rows opened in place of a closed one.
    *
    * @param id
    *   of the closed pane
    * @param number
    *   its number among the key's in that batch, where rows are processed one by one
    */
  def reopened(id: String, batch: Long, number: Long = 0L): String =
    if (number == 0) s"$id~$batch" else s"$id~$batch.$number"

  /** The id of a pane of a window that replaced another, or was added later, in a continued query. The windows may have
    * panes with the same bounds.
    *
    * @param generation
    *   the first batch of the window; 0 where the query began with it
    */
  def ofGeneration(id: String, generation: Long): String = if (generation == 0) id else s"$id#$generation"

  private[windows] def bytes(merged: Vector[PaneId]): Int = 20 * (merged.length + 1) + 10

  private[windows] def put(buffer: ByteBuffer, from: Long, id: PaneId): Unit = {
    Varint.putSigned(buffer, id.opened - from)
    Varint.putSigned(buffer, id.origin)
  }

  private[windows] def get(buffer: ByteBuffer, from: Long): PaneId =
    PaneId(from + Varint.getSigned(buffer), Varint.getSigned(buffer))
}
