package dev.mullion.windows.key

import java.nio.ByteBuffer

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.{EarlyFiring, FiringKind, SlicedRules}
import dev.mullion.windows.sets.Varint

/** The firings of the open panes of one key, when panes fire early: for each pane its number of firings, its clock
  * readings (see [[EarlyFiring]]), its rows since then, and whether it was `on_time`. Overlapping windows of one key
  * change and fire together, so they share one record.
  *
  * Mutable, one per current key; `toBytes`/`fromBytes` is its form in state.
  */
final class PaneFirings private (private val panes: java.util.TreeMap[java.lang.Long, PaneFirings.Pane]) {
  import PaneFirings.Pane

  def isEmpty: Boolean = panes.isEmpty

  def first: Long = panes.firstKey

  /** Records `rows` rows of `window` in the batch of `clock`. */
  def touch(window: Long, rows: Long, clock: BatchClock): Unit = {
    val pane = panes.computeIfAbsent(window, _ => new Pane(0, clock.now, clock.wall, rows = 0, wasOnTime = false))
    pane.rows += rows
  }

  /** Adopts rules that begin with the batch of `clock`: see [[FiringsBegin]]. */
  def beginAgain(begin: FiringsBegin): Unit = panes.values.forEach { pane =>
    pane.rows = begin.rowsSince(pane.rows)
    pane.wasOnTime = begin.wasOnTime(pane.wasOnTime)
  }

  /** The number of firings of `window` so far, which is the seq of its next firing. */
  def fired(window: Long): Int = {
    val pane = panes.get(window)
    if (pane eq null) 0 else pane.fired
  }

  /** The wall clock when `window` opened or last fired; none if it has no record. */
  def firedAt(window: Long): Option[Long] = Option(panes.get(window)).map(_.wallReading)

  /** Records a firing of `window` in the batch of `clock`. */
  def fire(window: Long, kind: FiringKind, clock: BatchClock): Unit = {
    val pane = panes.get(window)
    pane.fired += 1
    pane.eventReading = clock.now
    pane.wallReading = clock.wall
    pane.rows = 0
    if (kind == FiringKind.OnTime) pane.wasOnTime = true
  }

  /** Forgets the panes before `window`, which have closed. */
  def removeBefore(window: Long): Unit = panes.headMap(window).clear()

  /** The windows that fire early in the batch of `clock`, in order of time. */
  def due(early: EarlyFiring, clock: BatchClock): Array[Long] = {
    val windows = Array.newBuilder[Long]
    panes.forEach { (window, pane) =>
      if (waits(early, pane) && early.isDue(pane.eventReading, pane.wallReading, clock)) windows += window
    }
    windows.result()
  }

  /** The windows that fire for their rows in the batch of `clock`, in order of time, with the kind of firing. */
  def afterRows(rules: SlicedRules, clock: BatchClock): Seq[(Long, FiringKind)] = {
    val firing = Seq.newBuilder[(Long, FiringKind)]
    panes.forEach { (window, pane) =>
      rules
        .afterRows(rules.windowEnd(window), pane.rows, pane.wasOnTime, clock)
        .foreach(kind => firing += ((window, kind)))
    }
    firing.result()
  }

  /** The windows from `first` on that fire `on_time` in the batch of `clock`, in order of time. */
  def onTime(first: Long, rules: SlicedRules, clock: BatchClock): Array[Long] = {
    val windows = Array.newBuilder[Long]
    panes.tailMap(first).forEach { (window, pane) =>
      if (!pane.wasOnTime && rules.isOnTime(rules.windowEnd(window), clock)) windows += window
    }
    windows.result()
  }

  /** The first window from `first` on that has not fired `on_time`. */
  def firstNotOnTime(first: Long): Option[Long] = {
    val pane = panes.tailMap(first).entrySet.stream.filter(!_.getValue.wasOnTime).findFirst
    if (pane.isPresent) Some(pane.get.getKey) else None
  }

  /** The readings of the pane that is due first, if one waits to fire. */
  def firstReadings(early: EarlyFiring): Option[(Long, Long)] = {
    var first = Option.empty[Pane]
    panes.values.forEach { pane =>
      if (waits(early, pane) && first.forall(pane.isBefore)) first = Some(pane)
    }
    first.map(p => (p.eventReading, p.wallReading))
  }

  def toBytes: Array[Byte] = {
    val buffer = ByteBuffer.allocate(panes.size * 46)
    panes.forEach { (window, pane) =>
      Varint.putSigned(buffer, window)
      Varint.putSigned(buffer, (pane.fired.toLong << 1) | (if (pane.wasOnTime) 1 else 0))
      Varint.putSigned(buffer, pane.rows)
      buffer.putLong(pane.eventReading).putLong(pane.wallReading)
    }
    java.util.Arrays.copyOf(buffer.array, buffer.position())
  }

  /** After `on_time` a pane fires for its rows, and not at intervals. */
  private def waits(early: EarlyFiring, pane: Pane): Boolean = !pane.wasOnTime && (early.unchanged || pane.rows > 0)
}

object PaneFirings {

  /** @param rows
    *   its number of rows since it opened or last fired
    */
  private final class Pane(
      var fired: Int,
      var eventReading: Long,
      var wallReading: Long,
      var rows: Long,
      var wasOnTime: Boolean
  ) extends Readings

  def empty: PaneFirings = new PaneFirings(new java.util.TreeMap())

  def fromBytes(bytes: Array[Byte]): PaneFirings = {
    val firings = empty
    val buffer = ByteBuffer.wrap(bytes)
    while (buffer.hasRemaining) {
      val window = Varint.getSigned(buffer)
      val firedAndOnTime = Varint.getSigned(buffer)
      val rows = Varint.getSigned(buffer)
      val (fired, wasOnTime) = ((firedAndOnTime >> 1).toInt, (firedAndOnTime & 1) == 1)
      firings.panes.put(window, new Pane(fired, buffer.getLong(), buffer.getLong(), rows, wasOnTime))
    }
    firings
  }
}
