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
  * @param opened
  *   the wall clock at its first row, with a timeout
  * @param mark
  *   the value of the window's rows, if a change of it closes the window
  */
final class GlobalPaneOfKey(
    trigger: GlobalTrigger,
    timeout: Option[PaneTimeout],
    private var rows: Long,
    private var start: Long,
    private var opened: Long,
    private var mark: Array[Byte]
) extends PanesOfKey {
  private val before = rows
  private var closesNow = false
  private var firing = false

  override def number: Long = rows

  override def closesBefore(row: Arriving): Iterator[ArrivalPane] =
    if (trigger == GlobalTrigger.Changes && start < rows && !java.util.Arrays.equals(mark, row.mark))
      Iterator.single(pane)
    else timeout.fold(Iterator.empty[ArrivalPane])(t => advance(t.wall))

  override def advance(clock: Long): Iterator[ArrivalPane] =
    if (clock >= nextClose && nextClose != Long.MaxValue) Iterator.single(pane) else Iterator.empty

  override def nextClose: Long = timeout.filter(_ => start < rows).fold(Long.MaxValue)(_.due(opened))

  override def take(row: Arriving): Fate = {
    if (start == rows) timeout.foreach(t => opened = t.wall)
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

  override def end(): Unit = closesNow = true

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

  override def toBytes: Array[Byte] = {
    val buffer = ByteBuffer.allocate(16 + timeout.size * 8 + mark.length).putLong(rows).putLong(start)
    timeout.foreach(_ => buffer.putLong(opened))
    buffer.put(mark).array
  }

  // The end of an open window is the number of rows so far.
  private def pane = ArrivalPane(start, start, rows)
}

object GlobalPaneOfKey {
  def empty(trigger: GlobalTrigger, timeout: Option[PaneTimeout] = None): GlobalPaneOfKey =
    new GlobalPaneOfKey(trigger, timeout, 0L, 0L, 0L, Array.emptyByteArray)

  def fromBytes(trigger: GlobalTrigger, timeout: Option[PaneTimeout], bytes: Array[Byte]): GlobalPaneOfKey = {
    val buffer = ByteBuffer.wrap(bytes)
    val (rows, start) = (buffer.getLong, buffer.getLong)
    val opened = timeout.fold(0L)(_ => buffer.getLong)
    val mark = new Array[Byte](buffer.remaining)
    buffer.get(mark)
    new GlobalPaneOfKey(trigger, timeout, rows, start, opened, mark)
  }
}
