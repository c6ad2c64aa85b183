package dev.mullion.windows.key

import java.nio.ByteBuffer

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.EarlyFiring
import dev.mullion.windows.sets.Varint

/** The number of firings of each pane of one key, and the inputs of the decision to fire early: the clock readings when
  * the pane opened or last fired, and whether it has rows since.
  *
  * @param byWall
  *   whether the wall clock counts in addition to the event clock: not for clocks per key
  * @param byRows
  *   whether rows since the last firing are counted
  */
final class FiringCounts private (
    panes: java.util.TreeMap[java.lang.Long, FiringCounts.Pane],
    byWall: Boolean,
    byRows: Boolean
) {
  import FiringCounts.Pane

  /** Records that a pane got a row. */
  def touch(window: Long, clock: BatchClock): Unit = {
    val pane = panes.computeIfAbsent(window, _ => new Pane(0, clock.now, clock.wall, changed = false, rows = 0))
    pane.changed = true
    pane.rows += 1
  }

  /** The number of a pane's rows since it opened or last fired, where they are counted. */
  def rowsSince(window: Long): Long = {
    val pane = panes.get(window)
    if (pane eq null) 0L else pane.rows
  }

  def fired(window: Long): Int = {
    val pane = panes.get(window)
    if (pane eq null) 0 else pane.fired
  }

  /** The wall clock when a pane opened or last fired; none where the wall clock does not count. */
  def firedAt(window: Long): Option[Long] = Option(panes.get(window)).filter(_ => byWall).map(_.wallReading)

  def fire(window: Long, clock: BatchClock): Unit = {
    val pane = panes.get(window)
    pane.fired += 1
    pane.eventReading = clock.now
    pane.wallReading = clock.wall
    pane.changed = false
    pane.rows = 0
  }

  /** The panes that fire early, in order of time. */
  def due(early: EarlyFiring, clock: BatchClock): Seq[Long] = {
    val windows = Seq.newBuilder[Long]
    panes.forEach { (window, pane) =>
      if (pane.waits(early) && early.isDue(pane.eventReading, pane.wallReading, clock)) windows += window
    }
    windows.result()
  }

  /** The readings of the pane that is due first, if one waits to fire. */
  def firstReadings(early: EarlyFiring): Option[(Long, Long)] = {
    var first = Option.empty[Pane]
    panes.values.forEach(pane => if (pane.waits(early) && first.forall(pane.isBefore)) first = Some(pane))
    first.map(p => (p.eventReading, p.wallReading))
  }

  def removeBefore(window: Long): Unit = panes.headMap(window).clear()

  def toBytes: Array[Byte] = {
    val buffer = ByteBuffer.allocate(panes.size * 46)
    panes.forEach { (window, pane) =>
      Varint.putSigned(buffer, window)
      Varint.putSigned(buffer, (pane.fired.toLong << 1) | (if (pane.changed) 1 else 0))
      buffer.putLong(pane.eventReading)
      if (byWall) { buffer.putLong(pane.wallReading); () }
      if (byRows) Varint.putSigned(buffer, pane.rows)
    }
    java.util.Arrays.copyOf(buffer.array, buffer.position())
  }
}

object FiringCounts {
  private final class Pane(
      var fired: Int,
      var eventReading: Long,
      var wallReading: Long,
      var changed: Boolean,
      var rows: Long
  ) extends Readings {
    def waits(early: EarlyFiring): Boolean = early.unchanged || changed
  }

  def empty(byWall: Boolean, byRows: Boolean): FiringCounts =
    new FiringCounts(new java.util.TreeMap(), byWall, byRows)

  private[windows] def from(buffer: ByteBuffer, byWall: Boolean, byRows: Boolean): FiringCounts = {
    val panes = new java.util.TreeMap[java.lang.Long, Pane]()
    while (buffer.hasRemaining) {
      val window = Varint.getSigned(buffer)
      val firedAndChanged = Varint.getSigned(buffer)
      val (event, wall) = (buffer.getLong(), if (byWall) buffer.getLong() else 0L)
      val rows = if (byRows) Varint.getSigned(buffer) else 0L
      panes.put(window, new Pane((firedAndChanged >> 1).toInt, event, wall, (firedAndChanged & 1) == 1, rows))
    }
    new FiringCounts(panes, byWall, byRows)
  }
}
