package dev.mullion.windows.key

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.{AlignedRules, EarlyFiring, EmptyWindows}
import dev.mullion.windows.sets.SliceSet

/** The panes of one key in windows aligned to the epoch.
  *
  * @param byPane
  *   whether each pane has a slot of its own, by its number, as panes that fire with each row do; else panes share
  *   slices
  * @param counted
  *   whether panes fire before they close, so that firings are counted
  * @param filled
  *   the slots that hold rows
  * @param openFrom
  *   the first window that was open when this was written
  * @param nextToClose
  *   where windows without rows close too, the first that is still to close; none before the key's first row
  */
final class AlignedPanesOfKey(
    rules: AlignedRules,
    byPane: Boolean,
    counted: Boolean,
    clock: KeyClock,
    private var rows: Long,
    filled: SliceSet,
    firings: FiringCounts,
    openFrom: Long,
    private var nextToClose: Long
) extends PanesOfKey {
  import rules.grid

  private def emitsEmpty = rules.refinements.empty

  private var first = 0L
  private var last = 0L
  private var ordinal = 0L
  // A key's own clock may not yet have closed the panes that it has passed.
  private var firstOpen =
    if (clock.started && !clock.isOwn) Math.max(openFrom, rules.firstOpen(clock.now)) else openFrom

  override def number: Long = rows

  override def closesBefore(row: Arriving): Iterator[ArrivalPane] =
    if (clock.followsWall) advance(clock.now) else Iterator.empty

  override def take(row: Arriving): Fate = {
    val ts = row.time
    val isLate = clock.isAhead(ts)
    ordinal = grid.ordinalOf(ts)
    last = grid.lastWindow(ordinal)
    clock.see(ts)
    if (!rules.inWindow(ts)) Fate.InNoWindow
    else if (isLate || last < firstOpen) Fate.Late
    else {
      first = Math.max(firstOpen, grid.firstWindow(ordinal))
      rows += 1
      if (emitsEmpty) nextToClose = Math.min(nextToClose, first)
      if (byPane) { var w = first; while (w <= last) { filled.add(w); w += 1 } }
      else filled.add(ordinal)
      // A pane opens at the clock's reading with its row.
      if (counted) {
        val reading = clock.reading; var w = first; while (w <= last) { firings.touch(w, reading); w += 1 }
      }
      Fate.InPanes
    }
  }

  override def nameOf(pane: ArrivalPane): (String, Seq[String]) =
    if (rules.window.sharesStarts) (PaneId.ofRange(pane.start, pane.end), Nil) else super.nameOf(pane)

  override def slots: Array[Long] =
    if (byPane) Array.range(0, (last - first + 1).toInt).map(first + _) else Array(ordinal)

  override def touched: Iterator[ArrivalPane] = Iterator.iterate(first)(_ + 1).takeWhile(_ <= last).map(pane)

  override def closes(): Iterator[ArrivalPane] = if (clock.isOwn) advance(clock.now) else Iterator.empty

  override def advance(clock: Long): Iterator[ArrivalPane] =
    if (clock == BatchClock.BeforeAllTime) Iterator.empty
    else {
      val openThen = rules.firstOpen(clock)
      if (openThen <= firstOpen) Iterator.empty
      else {
        val due =
          if (emitsEmpty) EmptyWindows.between(Math.max(firstOpen, nextToClose), openThen, clock, rules)
          else from(firstOpen).takeWhile(_ < openThen)
        firstOpen = openThen
        if (nextToClose != SliceSet.None) nextToClose = Math.max(nextToClose, openThen)
        due.map(pane)
      }
    }

  override def reopened(row: Arriving): Iterator[ArrivalPane] = {
    val ordinal = grid.ordinalOf(row.time)
    Iterator.iterate(grid.firstWindow(ordinal))(_ + 1).takeWhile(_ <= grid.lastWindow(ordinal)).map(pane)
  }

  override def slotsOf(pane: ArrivalPane): Array[Long] =
    if (byPane) Array(pane.id) else filledIn(grid.firstSlice(pane.id), grid.lastSlice(pane.id))

  override def isNew(slot: Long): Boolean = false

  // Windows close in order, so slots of no later window are no longer needed.
  override def forget(pane: ArrivalPane): Array[Long] = {
    val until = if (byPane) pane.id + 1 else grid.firstSlice(pane.id + 1)
    val free = if (filled.isEmpty) PanesOfKey.none else filledIn(filled.first, until - 1)
    filled.removeBefore(until)
    firings.removeBefore(pane.id + 1)
    free
  }

  override def fired(pane: ArrivalPane): Int = firings.fired(pane.id)

  override def full: Iterator[ArrivalPane] = rules.refinements.count.fold(Iterator.empty[ArrivalPane]) { n =>
    touched.filter(pane => firings.rowsSince(pane.id) >= n)
  }

  override def fire(pane: ArrivalPane): Unit = firings.fire(pane.id, clock.reading)

  override def early(firing: EarlyFiring): Seq[ArrivalPane] = firings.due(firing, clock.reading).map(pane)

  override def firstReadings(firing: EarlyFiring): Option[(Long, Long)] = firings.firstReadings(firing)

  override def firedAt(pane: ArrivalPane): Option[Long] = firings.firedAt(pane.id)

  override def ownClock: Option[Long] = Option.when(clock.isOwn)(clock.now)

  override def open: Iterator[ArrivalPane] = from(firstOpen).map(pane)

  override def openAtEnd: Iterator[ArrivalPane] =
    if (!emitsEmpty || filled.isEmpty) open
    else {
      val last = if (byPane) filled.last else grid.lastWindow(filled.last)
      Iterator.iterate(Math.max(firstOpen, nextToClose))(_ + 1).takeWhile(_ <= last).map(pane)
    }

  override def hadRows(pane: ArrivalPane): Boolean = !emitsEmpty || nextWindow(pane.id) == pane.id

  override def countOpen: Long =
    if (!byPane) filled.countWindows(grid, firstOpen) else open.size.toLong

  // A clock that follows the wall clock would be kept for ever for keys without further rows.
  override def isEmpty: Boolean =
    (!clock.isOwn || clock.followsWall) && nextWindow(firstOpen) == SliceSet.None && nextToClose == SliceSet.None

  override def nextClose: Long = {
    val next = if (emitsEmpty) Math.max(firstOpen, nextToClose) else nextWindow(firstOpen)
    clock.whenDue(rules.windowCloseDue(next))
  }

  override def toBytes: Array[Byte] = {
    val (slots, counts) = (filled.toBytes, firings.toBytes)
    BytesOfKey(clock, atMost = 8 + 8 + 8 + 4 + slots.length + counts.length) { buffer =>
      if (emitsEmpty) buffer.putLong(nextToClose)
      buffer.putLong(firstOpen).putLong(rows)
      BytesOfKey.putPart(buffer, slots)
      buffer.put(counts)
      ()
    }
  }

  private def from(window: Long): Iterator[Long] =
    Iterator.iterate(nextWindow(window))(w => nextWindow(w + 1)).takeWhile(_ != SliceSet.None)

  private def nextWindow(window: Long): Long =
    if (byPane) filled.atOrAfter(window) else filled.nextWindow(grid, window)

  private def filledIn(from: Long, to: Long): Array[Long] =
    Iterator
      .iterate(filled.atOrAfter(from))(s => filled.atOrAfter(s + 1))
      .takeWhile(s => s <= to && s != SliceSet.None)
      .toArray

  private def pane(window: Long) = ArrivalPane(window, grid.windowStart(window), grid.windowEnd(window))
}

object AlignedPanesOfKey {
  def empty(rules: AlignedRules, byPane: Boolean, counted: Boolean, clock: KeyClock): AlignedPanesOfKey =
    new AlignedPanesOfKey(
      rules,
      byPane,
      counted,
      clock,
      0L,
      SliceSet.empty,
      FiringCounts.empty(byWall(rules, clock), byRows(rules)),
      Long.MinValue,
      SliceSet.None
    )

  /** @param clock
    *   the clock of the key, as restored from state
    */
  def fromBytes(
      rules: AlignedRules,
      byPane: Boolean,
      counted: Boolean,
      clock: KeyClock,
      bytes: Array[Byte]
  ): AlignedPanesOfKey = {
    val buffer = BytesOfKey.behind(clock, bytes)
    val nextToClose = if (rules.refinements.empty) buffer.getLong else SliceSet.None
    val openFrom = buffer.getLong
    val rows = buffer.getLong
    val slots = BytesOfKey.takePart(buffer)
    val firings = FiringCounts.from(buffer, byWall(rules, clock), byRows(rules))
    new AlignedPanesOfKey(
      rules,
      byPane,
      counted,
      clock,
      rows,
      SliceSet.fromBytes(slots),
      firings,
      openFrom,
      nextToClose
    )
  }

  /** True if panes may fire early by the wall clock, too. */
  private def byWall(rules: AlignedRules, clock: KeyClock) = rules.early.isDefined && !clock.isOwn

  private def byRows(rules: AlignedRules) = rules.refinements.countsRows
}
