package dev.mullion.windows.key

import java.nio.ByteBuffer

import dev.mullion.windows.spec.{AlignedWindow, CountWindow, EvenGrid, SliceGrid}

/** The windows of [[CountWindow]]s over the rows of one key. The state is the number of rows; all else is arithmetic.
  * Overlapping windows share slices, like those of time.
  *
  * @param grid
  *   the slices of row numbers
  * @param byPane
  *   whether each pane has its own slot
  */
final class CountPanesOfKey(window: CountWindow, grid: SliceGrid, byPane: Boolean, private var rows: Long)
    extends PanesOfKey {
  import window.{every, size}

  private val before = rows
  private var last = -1L
  private var firing = false

  override def number: Long = rows

  override def take(row: Arriving): Fate = {
    last = rows
    rows += 1
    firing = true
    if (Math.floorMod(last, every) < size) Fate.InPanes else Fate.InNoWindow
  }

  override def slots: Array[Long] =
    if (byPane) Array.range(0, (lastWindow - firstWindow + 1).toInt).map(firstWindow + _)
    else Array(grid.ordinalOf(last))

  override def touched: Iterator[ArrivalPane] =
    Iterator.iterate(firstWindow)(_ + 1).takeWhile(_ <= lastWindow).map(pane)

  /** At most one window: the one that the current row completes. */
  override def closes(): Iterator[ArrivalPane] = {
    firing = false
    if (rows >= size && (rows - size) % every == 0) Iterator.single(pane((rows - size) / every)) else Iterator.empty
  }

  override def slotsOf(pane: ArrivalPane): Array[Long] =
    if (byPane) Array(pane.id) else upTo(grid.firstSlice(pane.id), Math.min(grid.lastSlice(pane.id), newest))

  override def isNew(slot: Long): Boolean =
    if (byPane) slot * every >= before else before == 0 || slot > grid.ordinalOf(before - 1)

  override def forget(pane: ArrivalPane): Array[Long] =
    if (byPane) Array(pane.id)
    else upTo(grid.firstSlice(pane.id), Math.min(grid.lastSlice(pane.id), grid.firstSlice(pane.id + 1) - 1))

  /** With running panes, one firing per row. */
  override def fired(pane: ArrivalPane): Int = (Math.min(if (firing) last else rows, pane.end) - pane.start).toInt

  override def fire(pane: ArrivalPane): Unit = ()

  override def open: Iterator[ArrivalPane] = {
    val first = if (rows < size) 0 else (rows - size) / every + 1
    Iterator.iterate(first)(_ + 1).takeWhile(_ * every < rows).map(pane)
  }

  override def isEmpty: Boolean = false

  override def toBytes: Array[Byte] = ByteBuffer.allocate(8).putLong(rows).array

  private def firstWindow = Math.max(0L, grid.firstWindow(grid.ordinalOf(last)))
  private def lastWindow = grid.lastWindow(grid.ordinalOf(last))
  private def newest = grid.ordinalOf(rows - 1)

  private def pane(window: Long) = ArrivalPane(window, window * every, window * every + size)

  private def upTo(from: Long, to: Long): Array[Long] = Array.range(0, (to - from + 1).toInt).map(from + _)
}

object CountPanesOfKey {
  def grid(window: CountWindow): SliceGrid = new EvenGrid(AlignedWindow.sliding(window.size, window.every))

  def fromBytes(window: CountWindow, grid: SliceGrid, byPane: Boolean, bytes: Array[Byte]): CountPanesOfKey =
    new CountPanesOfKey(window, grid, byPane, ByteBuffer.wrap(bytes).getLong)
}
