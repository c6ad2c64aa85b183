package dev.mullion.windows.key

import java.nio.ByteBuffer

import dev.mullion.windows.spec.GlobalTrigger

/** The one open window of a [[GlobalWindow]] over the rows of a key.
  *
  * {{{
  *   rows         0 1 2 3 4 5
  *   changes(v)   a a b b b a      closes [0, 2) before row 2, [2, 5) before row 5
  * }}}
  *
  * @param rows
  *   the number of rows so far
  * @param start
  *   the first row of the window
  * @param mark
  *   the value of the window's rows, if a change of it closes the window
  */
final class GlobalPaneOfKey(
    trigger: GlobalTrigger,
    private var rows: Long,
    private var start: Long,
    private var mark: Array[Byte]
) extends PanesOfKey {
  private val before = rows
  private var closesNow = false
  private var firing = false

  override def number: Long = rows

  override def closesBefore(row: Arriving): Iterator[ArrivalPane] =
    if (trigger == GlobalTrigger.Changes && start < rows && !java.util.Arrays.equals(mark, row.mark))
      Iterator.single(pane)
    else Iterator.empty

  override def take(row: Arriving): Fate = {
    rows += 1
    firing = true
    mark = row.mark
    closesNow = trigger match {
      case GlobalTrigger.Every(n) => rows - start >= n
      case GlobalTrigger.When     => row.closes
      case GlobalTrigger.Changes  => false
      // Such a function is called with all rows of a batch at once: see UnsplitRows.
      case GlobalTrigger.Split(_) => throw new IllegalStateException("a function does not close windows row by row")
    }
    Fate.InPanes
  }

  override def slots: Array[Long] = Array(start)

  override def touched: Iterator[ArrivalPane] = Iterator.single(pane)

  override def closes(): Iterator[ArrivalPane] = {
    firing = false
    if (closesNow) Iterator.single(pane) else Iterator.empty
  }

  override def slotsOf(pane: ArrivalPane): Array[Long] = Array(pane.id)

  override def isNew(slot: Long): Boolean = slot >= before

  override def forget(pane: ArrivalPane): Array[Long] = {
    start = rows
    Array(pane.id)
  }

  /** With running panes, one firing per row. */
  override def fired(pane: ArrivalPane): Int = ((if (firing) rows - 1 else rows) - pane.start).toInt

  override def fire(pane: ArrivalPane): Unit = ()

  override def open: Iterator[ArrivalPane] = if (start < rows) Iterator.single(pane) else Iterator.empty

  override def isEmpty: Boolean = false

  override def toBytes: Array[Byte] = ByteBuffer.allocate(16 + mark.length).putLong(rows).putLong(start).put(mark).array

  // The end of an open window is the number of rows so far.
  private def pane = ArrivalPane(start, start, rows)
}

object GlobalPaneOfKey {
  def empty(trigger: GlobalTrigger): GlobalPaneOfKey = new GlobalPaneOfKey(trigger, 0L, 0L, Array.emptyByteArray)

  def fromBytes(trigger: GlobalTrigger, bytes: Array[Byte]): GlobalPaneOfKey = {
    val buffer = ByteBuffer.wrap(bytes)
    val (rows, start) = (buffer.getLong, buffer.getLong)
    val mark = new Array[Byte](buffer.remaining)
    buffer.get(mark)
    new GlobalPaneOfKey(trigger, rows, start, mark)
  }
}
