package dev.mullion.windows.key

import java.nio.ByteBuffer

import dev.mullion.windows.sets.Varint

/** What tells a session from every other of its key, from its opening to its close: the time with which it opened,
  * which stays what it is when earlier rows move its start.
  *
  * {{{
  *   batch 1    id 20       |------|                         opens with a row at 20
  *   batch 2    id 20   |----------|                         its start has moved
  *   batch 3    id 60                         |------|
  *   batch 4    id 20   |----------------------------|       took in [60]
  * }}}
  *
  * With one gap for all rows no other session can open with that time: while this one is open it touches it, and after
  * that its row is late. Where rows bring their gaps that is not so, and the id has an `origin` too. A session is named
  * where it is first seen by others: as the batch that opens it has all its rows, or with its first row where rows are
  * taken one by one and may fire it.
  *
  * @param opened
  *   microseconds
  * @param origin
  *   0, or which opening of that time it is: see `PaneId.origin`
  */
final case class PaneId(opened: Long, origin: Long) {

  /** As the output has it. */
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

  /** Of a session that has no id yet, or needs none. */
  val none: PaneId = PaneId(Long.MinValue, Long.MinValue)

  /** Which opening it is: in which batch, and of which row of the key in it, from 0. */
  def origin(batch: Long, row: Long): Long = ((batch + 1) << rowBits) | (row & mostRows)

  /** The id of a pane that has a window of its own, but for the late rows that would reopen it. Windows that begin
    * before time share their start.
    */
  def ofWindow(start: Long, end: Long): String =
    if (start == Long.MinValue) ofRange(start, end) else start.toString

  /** The id of a pane whose window shares its start with others. */
  def ofRange(start: Long, end: Long): String = s"$start/$end"

  /** The id of a pane that late rows opened in place of one that has closed.
    *
    * @param id
    *   what the closed one's was, or would have been
    * @param number
    *   which one it is of the key's in that batch, where rows are taken one by one
    */
  def reopened(id: String, batch: Long, number: Long = 0L): String =
    if (number == 0) s"$id~$batch" else s"$id~$batch.$number"

  /** The id of a pane of a window that took another's place, or came later, in a query that went on over its
    * checkpoint: the windows may have panes with the same bounds.
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
