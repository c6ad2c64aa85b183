package dev.mullion.windows

import java.nio.ByteBuffer

/** How often the panes of one key have fired, and what decides when they fire early by the key's own clock: what it
  * read when a pane opened or last fired, and whether rows came since.
  */
final class FiringCounts private (panes: java.util.TreeMap[java.lang.Long, FiringCounts.Pane]) {
  import FiringCounts.Pane

  /** Notes that a pane got a row. */
  def touch(window: Long, clock: Long): Unit =
    panes.computeIfAbsent(window, _ => new Pane(0, clock, changed = false)).changed = true

  def fired(window: Long): Int = {
    val pane = panes.get(window)
    if (pane eq null) 0 else pane.fired
  }

  def fire(window: Long, clock: Long): Unit = {
    val pane = panes.get(window)
    pane.fired += 1
    pane.reading = clock
    pane.changed = false
  }

  /** The panes that fire early, in order of time. */
  def due(early: EarlyFiring, clock: Long): Seq[Long] = {
    val windows = Seq.newBuilder[Long]
    panes.forEach { (window, pane) =>
      if ((early.unchanged || pane.changed) && clock >= early.eventDue(pane.reading)) windows += window
    }
    windows.result()
  }

  def removeBefore(window: Long): Unit = panes.headMap(window).clear()

  def toBytes: Array[Byte] = {
    val buffer = ByteBuffer.allocate(panes.size * 28)
    panes.forEach { (window, pane) =>
      Varint.putSigned(buffer, window)
      Varint.putSigned(buffer, (pane.fired.toLong << 1) | (if (pane.changed) 1 else 0))
      buffer.putLong(pane.reading)
    }
    java.util.Arrays.copyOf(buffer.array, buffer.position())
  }
}

object FiringCounts {
  private final class Pane(var fired: Int, var reading: Long, var changed: Boolean)

  def empty: FiringCounts = new FiringCounts(new java.util.TreeMap())

  private[windows] def from(buffer: ByteBuffer): FiringCounts = {
    val panes = new java.util.TreeMap[java.lang.Long, Pane]()
    while (buffer.hasRemaining) {
      val window = Varint.getSigned(buffer)
      val firedAndChanged = Varint.getSigned(buffer)
      panes.put(window, new Pane((firedAndChanged >> 1).toInt, buffer.getLong(), (firedAndChanged & 1) == 1))
    }
    new FiringCounts(panes)
  }
}
