package dev.mullion.windows.rules

import dev.mullion.windows.clock.{BatchClock, PaneClock}
import dev.mullion.windows.sets.SliceSet
import dev.mullion.windows.spec.{
  AroundWindow,
  CustomWindow,
  Duration,
  GridWindow,
  OrderedWindow,
  RowNumberWindow,
  SessionWindow,
  SliceGrid,
  TimeMath,
  WindowSpec
}

/** The firing and closing of a window's panes, and the treatment of late rows: the rules of the pane contract that need
  * no data. All times in microseconds.
  *
  * {{{
  *   open                 end              end + allowedLateness
  *    |---- early, early --|------ early ---|  close: once, and last
  *                                          |  rows of later batches are late
  * }}}
  */
sealed trait PaneRules extends Product with Serializable {
  def window: WindowSpec

  /** The time that a pane stays open after its end, >= 0. */
  def allowedLateness: Long

  def early: Option[EarlyFiring]

  def late: LatePolicy

  def refinements: Refinements

  def clock: PaneClock

  RuleChecks.check(this)

  /** True if panes fire `early`. */
  def firesEarly: Boolean = early.isDefined || refinements.countsRows

  /** True if panes may fire before they close, or may have done so, so that firings are recorded. */
  def firesOpen: Boolean = early.isDefined || refinements.fires || refinements.remembers

  /** These rules with other refinements, where the window has a clock. */
  def refined(change: Refinements => Refinements): PaneRules = this match {
    case numbered: NumberedRules => numbered
    case _                       => PaneRules(window, allowedLateness, early, late, change(refinements), clock)
  }

  def onProcessingTime: Boolean = clock == PaneClock.ProcessingTime

  /** The firing of a pane for its rows in the batch of `batch`; not for the interval or the clock alone.
    *
    * @param rows
    *   its number of rows since it opened or last fired
    * @param wasOnTime
    *   whether it has fired `on_time`
    */
  def afterRows(end: Long, rows: Long, wasOnTime: Boolean, batch: BatchClock): Option[FiringKind] =
    if (rows == 0 || batch.inputEnds || batch.closes(closeDue(end))) None
    else if (wasOnTime) PaneRules.update
    else if (isOnTime(end, batch)) PaneRules.onTime
    else if (refinements.count.exists(rows >= _)) PaneRules.early
    else None

  /** The interval firing of a pane with rows in the batch of `batch`, if `afterRows` has none. Closing and `on_time`
    * come first, so the result is the same as after all rows of the batch.
    *
    * @param eventReading
    *   the clock readings when it opened or last fired, as in [[EarlyFiring]]
    */
  def earlyAfterRows(
      end: Long,
      eventReading: Long,
      wallReading: Long,
      wasOnTime: Boolean,
      batch: BatchClock
  ): Option[FiringKind] =
    if (
      !wasOnTime && early.exists(_.isDue(eventReading, wallReading, batch)) &&
      !batch.closes(closeDue(end)) && !isOnTime(end, batch)
    ) PaneRules.early
    else None

  /** True if a pane that ends at `end`, does not close and has not fired `on_time` does so in the batch of `batch`. */
  def isOnTime(end: Long, batch: BatchClock): Boolean = refinements.onTime && !batch.inputEnds && batch.now >= end

  /** The next time at which the clock alone affects a pane, interval firings aside. */
  def nextDue(end: Long, wasOnTime: Boolean): Long = if (refinements.onTime && !wasOnTime) end else closeDue(end)

  /** The time at which a pane that ends at `end` closes. */
  def closeDue(end: Long): Long = TimeMath.plus(end, allowedLateness)

  /** The time at which the last pane closes that a row can enter without others: from then on the row is late. Rows
    * with ranges of their own have theirs in [[RowRanges]].
    *
    * @param gap
    *   of its session
    */
  def lastDue(ts: Long, gap: Long): Long = closeDue(ts)

  /** The event-time watermark for downstream operators: no later close ends at or before it. Like Spark's, it is never
    * before the epoch.
    */
  def outputWatermark(clock: Long): Long = Math.max(0L, TimeMath.minus(clock, allowedLateness))

  /** The clock of firing and closing, as text.
    *
    * @param time
    *   the name of the event time's column
    */
  def on(time: String): String = if (onProcessingTime) "" else s"on event time $time"

  def describe: String = {
    val close =
      if (allowedLateness == 0) "closes at its end" else s"closes ${Duration.describe(allowedLateness)} after its end"
    val lateRows = late match {
      case LatePolicy.Drop       => "late rows counted and dropped"
      case LatePolicy.Emit       => "late rows emitted"
      case LatePolicy.Reopen     => "late rows reopen panes"
      case LatePolicy.ReopenEach => "rows reopen each pane that they are late for"
    }
    val on = Option.when(onProcessingTime)("on processing time")
    val fires = early.map(_.describe) ++ refinements.describe
    (Seq(window.describe) ++ on ++ Seq(close) ++ fires ++ Option.unless(onProcessingTime)(lateRows)).mkString(", ")
  }
}

object PaneRules {

  private val early: Option[FiringKind] = Some(FiringKind.Early)
  private val onTime: Option[FiringKind] = Some(FiringKind.OnTime)
  private val update: Option[FiringKind] = Some(FiringKind.Update)

  def apply(
      window: WindowSpec,
      allowedLateness: Long,
      early: Option[EarlyFiring],
      late: LatePolicy,
      refinements: Refinements = Refinements.none,
      clock: PaneClock = PaneClock.EventTime
  ): PaneRules =
    window match {
      case grid: GridWindow         => AlignedRules(grid, allowedLateness, early, late, refinements, clock)
      case session: SessionWindow   => SessionRules(session, allowedLateness, early, late, refinements, clock)
      case ordered: OrderedWindow   => OrderedRules(ordered, allowedLateness, early, late, refinements, clock)
      case around: AroundWindow     => AroundRules(around, allowedLateness, early, late, refinements, clock)
      case numbers: RowNumberWindow =>
        RuleChecks.checkRowNumbers(numbers, allowedLateness, early, late, refinements)
        NumberedRules(numbers, refinements.ids, refinements.atEnd)
      case custom: CustomWindow => CustomRules(custom, allowedLateness, early, late, refinements, clock)
    }
}

/** The rules for windows that overlap and share slices. Windows and slices are numbered in order of time. The existing
  * windows may depend on the slices that have rows.
  */
sealed trait SlicedRules extends PaneRules {
  def windowStart(window: Long): Long

  def windowEnd(window: Long): Long

  /** The first slice that a window holds. */
  def firstSlice(window: Long): Long

  /** The last slice that a window holds. */
  def lastSlice(window: Long): Long

  /** The first window that is open at event clock `clock`. */
  def firstOpen(clock: Long): Long

  /** The first existing window at or after `window`, or `SliceSet.None`. */
  def nextWindow(slices: SliceSet, window: Long): Long

  /** The number of existing windows at or after `window`. */
  def countWindows(slices: SliceSet, window: Long): Long

  /** The windows at or after `window` that hold `slice`, in order. */
  def foreachWindow(slices: SliceSet, slice: Long, window: Long)(use: Long => Unit): Unit

  /** The windows at or after `window` that hold no other slice than `slice`, in order: those that exist since it was
    * added.
    */
  def foreachWindowOfOne(slices: SliceSet, slice: Long, window: Long)(use: Long => Unit): Unit

  /** The first window whose pane closes at `due`: the reverse of `windowCloseDue`. */
  def windowThatCloses(due: Long): Long

  /** True if a row at `ts`, which is in a window, is late: iff no pane that holds it can be open. */
  def isLate(ts: Long, clock: BatchClock): Boolean

  /** The time at which the pane of window number `window` closes. */
  def windowCloseDue(window: Long): Long = closeDue(windowEnd(window))

  /** The time from which no window that is still to close can hold `slice`. */
  def expires(slice: Long): Long
}

/** The rules for windows on a grid over time: the number of a pane determines all of it except its rows. */
final case class AlignedRules(
    window: GridWindow,
    allowedLateness: Long,
    early: Option[EarlyFiring],
    late: LatePolicy,
    refinements: Refinements = Refinements.none,
    clock: PaneClock = PaneClock.EventTime
) extends SlicedRules {
  val grid: SliceGrid = window.grid

  /** True if a row is stored once per overlapping window: a firing clears what it emits, and the windows fire at
    * different times. Each window then is a slice of its own, by the window's number.
    */
  val keepsApart: Boolean = window.overlaps && !refinements.accumulate

  /** True if the slices of each key are tracked: where windows share them, or close without rows. Else each pane is
    * independent.
    */
  val knowsKeys: Boolean = refinements.empty || (window.overlaps && !keepsApart)

  /** True if slices and windows are numbered as in `SliceGrid`; else both are the start of a window. Several
    * overlapping windows begin before time, with the same start.
    */
  val numbersSlices: Boolean = window.overlaps || refinements.empty

  /** The number of windows that hold a row at `ts`, which is in one. */
  def panesOf(ts: Long): Int =
    if (!numbersSlices) 1
    else {
      val slice = grid.ordinalOf(ts)
      Math.toIntExact(grid.lastWindow(slice) - grid.firstWindow(slice) + 1)
    }

  /** The `i`th of them: the key of the records of panes that do not share rows. */
  def paneOf(ts: Long, i: Int): Long =
    if (numbersSlices) grid.firstWindow(grid.ordinalOf(ts)) + i else window.lastStart(ts)

  def paneStart(pane: Long): Long = if (numbersSlices) grid.windowStart(pane) else pane

  def paneEnd(pane: Long): Long = if (numbersSlices) grid.windowEnd(pane) else window.end(pane)

  /** The last pane that ends at or before `t`; where panes are identified by their starts, the first of time if none
    * does.
    */
  def paneEndingBy(t: Long): Long = if (numbersSlices) grid.lastWindowEndingBy(t) else window.startEndingBy(t)

  override def windowStart(window: Long): Long = grid.windowStart(window)

  override def windowEnd(window: Long): Long = grid.windowEnd(window)

  override def firstSlice(window: Long): Long = if (keepsApart) window else grid.firstSlice(window)

  override def lastSlice(window: Long): Long = if (keepsApart) window else grid.lastSlice(window)

  override def nextWindow(slices: SliceSet, window: Long): Long =
    if (keepsApart) slices.atOrAfter(window) else slices.nextWindow(grid, window)

  override def countWindows(slices: SliceSet, window: Long): Long =
    if (keepsApart) slices.countFrom(window) else slices.countWindows(grid, window)

  override def foreachWindow(slices: SliceSet, slice: Long, window: Long)(use: Long => Unit): Unit = {
    var next = Math.max(window, firstWindow(slice))
    val last = lastWindow(slice)
    while (next <= last) { use(next); next += 1 }
  }

  override def foreachWindowOfOne(slices: SliceSet, slice: Long, window: Long)(use: Long => Unit): Unit = {
    val (before, after) = (slices.before(slice), slices.atOrAfter(slice + 1))
    val first =
      if (before == SliceSet.None) firstWindow(slice) else Math.max(firstWindow(slice), lastWindow(before) + 1)
    val last = if (after == SliceSet.None) lastWindow(slice) else Math.min(lastWindow(slice), firstWindow(after) - 1)
    var next = Math.max(window, first)
    while (next <= last) { use(next); next += 1 }
  }

  private def firstWindow(slice: Long) = if (keepsApart) slice else grid.firstWindow(slice)

  private def lastWindow(slice: Long) = if (keepsApart) slice else grid.lastWindow(slice)

  override def expires(slice: Long): Long = windowCloseDue(lastWindow(slice))

  // At the end of time several windows close at once.
  override def windowThatCloses(due: Long): Long = {
    val first = grid.lastWindowEndingBy(TimeMath.minus(due, allowedLateness))
    if (windowCloseDue(first) < due) first + 1 else first
  }

  /** True if `ts` is in a window. */
  def inWindow(ts: Long): Boolean = window.holds(ts)

  override def lastDue(ts: Long, gap: Long): Long = closeDue(window.end(window.lastStart(ts)))

  override def isLate(ts: Long, clock: BatchClock): Boolean = clock.hadClosed(lastDue(ts, 0L))

  override def firstOpen(clock: Long): Long = grid.firstWindowEndingAfter(TimeMath.minus(clock, allowedLateness))
}

/** The rules for windows around rows. A window's number is the time of its rows, and so is the number of its slice:
  * each slice has a window.
  *
  * {{{
  *   rows kept    |<-- before -->|<------- after + allowed lateness ------->|
  *                               first row whose window is open          clock
  * }}}
  *
  * A row whose own window has closed still enters the windows of later rows within reach. It is kept as long as such
  * rows may arrive, and is late once none can.
  */
final case class AroundRules(
    window: AroundWindow,
    allowedLateness: Long,
    early: Option[EarlyFiring],
    late: LatePolicy,
    refinements: Refinements = Refinements.none,
    clock: PaneClock = PaneClock.EventTime
) extends SlicedRules {
  override def windowStart(window: Long): Long = firstSlice(window)

  override def windowEnd(window: Long): Long = TimeMath.plus(lastSlice(window), 1)

  override def firstSlice(row: Long): Long = TimeMath.minus(row, window.before)

  override def lastSlice(row: Long): Long = TimeMath.plus(row, window.after)

  override def firstOpen(clock: Long): Long = TimeMath.minus(TimeMath.minus(clock, allowedLateness), window.after)

  override def nextWindow(slices: SliceSet, row: Long): Long = slices.atOrAfter(row)

  override def countWindows(slices: SliceSet, row: Long): Long = slices.countFrom(row)

  override def foreachWindow(slices: SliceSet, slice: Long, row: Long)(use: Long => Unit): Unit = {
    var next = slices.atOrAfter(Math.max(row, TimeMath.minus(slice, window.after)))
    val last = TimeMath.plus(slice, window.before)
    while (next <= last && next != SliceSet.None) { use(next); next = slices.atOrAfter(next + 1) }
  }

  override def foreachWindowOfOne(slices: SliceSet, slice: Long, row: Long)(use: Long => Unit): Unit =
    if (slice >= row) use(slice)

  override def windowThatCloses(due: Long): Long = firstOpen(TimeMath.minus(due, 1))

  override def lastDue(ts: Long, gap: Long): Long = expires(ts)

  override def isLate(ts: Long, clock: BatchClock): Boolean = clock.hadClosed(expires(ts))

  override def expires(slice: Long): Long = windowCloseDue(TimeMath.plus(slice, window.before))
}

/** The rules for sessions. The sessions that a row touches depend on state, so only a row whose own session would still
  * be open is certain not to be late.
  */
final case class SessionRules(
    window: SessionWindow,
    allowedLateness: Long,
    early: Option[EarlyFiring],
    late: LatePolicy,
    refinements: Refinements = Refinements.none,
    clock: PaneClock = PaneClock.EventTime
) extends PaneRules {

  /** True if the session of a row alone had closed by `clock`, so that it is late unless it touches an open session. */
  def mayBeLate(ts: Long, gap: Long, clock: Long): Boolean = clock >= closeDue(TimeMath.plus(ts, gap))

  override def lastDue(ts: Long, gap: Long): Long = closeDue(TimeMath.plus(ts, window.gap.getOrElse(gap)))

  /** The number of a row's slice. Rows of one slice are less than `gap` apart, so they are in one session and may be
    * aggregated before the sessions are known.
    */
  def slice(ts: Long, gap: Long): Long = Math.floorDiv(ts, gap)
}

/** The rules for windows whose bounds depend on the order of rows. A window has its first and its last row, and a
  * `reach`: the end by the gaps of its rows alone.
  *
  * A window's end moves back in one case only: a row ends it. Rows of later batches never move it before the clock, so
  * no close is late downstream.
  */
final case class OrderedRules(
    window: OrderedWindow,
    allowedLateness: Long,
    early: Option[EarlyFiring],
    late: LatePolicy,
    refinements: Refinements = Refinements.none,
    clock: PaneClock = PaneClock.EventTime
) extends PaneRules {
  override def lastDue(ts: Long, gap: Long): Long = {
    val reach = TimeMath.plus(ts, window.gap.getOrElse(gap))
    closeDue(window.maxLength.fold(reach)(most => Math.min(reach, TimeMath.plus(ts, most))))
  }

  /** True if a row at `ts`, at or after the start of a window and before the next one, belongs to that window. A row
    * that has the time of the row that ended a window begins the next one.
    */
  def continues(first: Long, last: Long, reach: Long, isEnded: Boolean, ts: Long): Boolean =
    if (isEnded) ts < last else ts <= reach && window.maxLength.forall(ts < TimeMath.plus(first, _))

  /** True if a window and the next one become one, after a row has joined or begun the earlier one. The end of the next
    * one must not move back.
    */
  def merges(first: Long, reach: Long, isEnded: Boolean, nextFirst: Long, nextEnd: Long): Boolean =
    !window.fromFirstRow && !isEnded && nextFirst <= reach &&
      window.maxLength.forall(nextEnd <= TimeMath.plus(first, _))

  /** The end of a window. Windows do not overlap, except at the time of a row that ends one.
    *
    * @param nextFirst
    *   the start of the next one, or the end of time
    */
  def end(first: Long, last: Long, reach: Long, isEnded: Boolean, nextFirst: Long): Long =
    if (isEnded) TimeMath.plus(last, 1)
    else Math.min(nextFirst, window.maxLength.fold(reach)(most => Math.min(reach, TimeMath.plus(first, most))))

  /** The same windows on a batch DataFrame: the rows of a key are in order, so each row closes what it has passed. */
  def onBatch: OrderedRules =
    copy(allowedLateness = 0L, early = None, refinements = Refinements.none.copy(ids = refinements.ids))
}

/** The rules for windows defined by rows: panes are independent, and each closes by its own end. */
final case class CustomRules(
    window: CustomWindow,
    allowedLateness: Long,
    early: Option[EarlyFiring],
    late: LatePolicy,
    refinements: Refinements = Refinements.none,
    clock: PaneClock = PaneClock.EventTime
) extends PaneRules

/** The rules for windows of row numbers: their panes close with the row that completes them, and no row is late. */
final case class NumberedRules(window: RowNumberWindow, ids: Boolean = false, atEnd: Boolean = false)
    extends PaneRules {
  override def allowedLateness: Long = 0L
  override def early: Option[EarlyFiring] = None
  override def late: LatePolicy = LatePolicy.Drop
  override def refinements: Refinements = Refinements.none.copy(ids = ids, atEnd = atEnd)
  override def clock: PaneClock = PaneClock.EventTime
  override def on(time: String): String = "in order of arrival"

  override def describe: String = (window.describe +: refinements.describe).mkString(", ")
}
