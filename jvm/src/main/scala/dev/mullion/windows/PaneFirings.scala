package dev.mullion.windows

import java.nio.ByteBuffer

/** What is known of the open panes of one key beside their slices, when panes fire early: for each pane, how often it
  * has fired, its readings of the clocks (see [[EarlyFiring]]) and whether rows came since. Overlapping windows of one
  * key change and fire together, so they stand in one record.
  *
  * Mutable, one per key being worked on; `toBytes`/`fromBytes` is its form in state.
  */
final class PaneFirings private (private val panes: java.util.TreeMap[java.lang.Long, PaneFirings.Pane]) {
  import PaneFirings.Pane

  def isEmpty: Boolean = panes.isEmpty

  /** Notes that `window` got rows in the batch of `clock`. */
  def touch(window: Long, clock: BatchClock): Unit = {
    val pane = panes.computeIfAbsent(window, _ => new Pane(0, clock.now, clock.wall, changed = false))
    pane.changed = true
  }

  /** How often `window` has fired so far, which is the index of its next firing. */
  def fired(window: Long): Int = {
    val pane = panes.get(window)
    if (pane eq null) 0 else pane.fired
  }

  /** Notes that `window` fired in the batch of `clock`. */
  def fire(window: Long, clock: BatchClock): Unit = {
    val pane = panes.get(window)
    pane.fired += 1
    pane.eventReading = clock.now
    pane.wallReading = clock.wall
    pane.changed = false
  }

  /** Forgets the panes before `window`: they have closed. */
  def removeBefore(window: Long): Unit = panes.headMap(window).clear()

  /** The windows that fire early in the batch of `clock`, in order of time. */
  def due(early: EarlyFiring, clock: BatchClock): Array[Long] = {
    val windows = Array.newBuilder[Long]
    panes.forEach { (window, pane) =>
      if (waits(early, pane) && early.isDue(pane.eventReading, pane.wallReading, clock)) windows += window
    }
    windows.result()
  }

  /** The readings of the pane that falls due first, if any waits to fire. */
  def firstReadings(early: EarlyFiring): Option[(Long, Long)] = {
    var first = Option.empty[Pane]
    panes.values.forEach { pane =>
      if (waits(early, pane) && first.forall(pane.isBefore)) first = Some(pane)
    }
    first.map(p => (p.eventReading, p.wallReading))
  }

  def toBytes: Array[Byte] = {
    val buffer = ByteBuffer.allocate(panes.size * 36)
    panes.forEach { (window, pane) =>
      Varint.putSigned(buffer, window)
      Varint.putSigned(buffer, (pane.fired.toLong << 1) | (if (pane.changed) 1 else 0))
      buffer.putLong(pane.eventReading).putLong(pane.wallReading)
    }
    java.util.Arrays.copyOf(buffer.array, buffer.position())
  }

  private def waits(early: EarlyFiring, pane: Pane): Boolean = early.unchanged || pane.changed
}

object PaneFirings {

  private final class Pane(var fired: Int, var eventReading: Long, var wallReading: Long, var changed: Boolean) {
    def isBefore(other: Pane): Boolean =
      eventReading < other.eventReading || (eventReading == other.eventReading && wallReading < other.wallReading)
  }

  def empty: PaneFirings = new PaneFirings(new java.util.TreeMap())

  def fromBytes(bytes: Array[Byte]): PaneFirings = {
    val firings = empty
    val buffer = ByteBuffer.wrap(bytes)
    while (buffer.hasRemaining) {
      val window = Varint.getSigned(buffer)
      val firedAndChanged = Varint.getSigned(buffer)
      val pane =
        new Pane((firedAndChanged >> 1).toInt, buffer.getLong(), buffer.getLong(), (firedAndChanged & 1) == 1)
      firings.panes.put(window, pane)
    }
    firings
  }
}
