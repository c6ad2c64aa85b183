package org.apache.spark.sql.mullion.operator.engine.aligned

import java.nio.ByteBuffer
import java.util.Arrays

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.udf.FailedAggregate
import org.apache.spark.sql.mullion.operator.engine.Iterators.Rows
import org.apache.spark.sql.mullion.operator.engine.accumulators.{Accumulators, PaneSums}
import org.apache.spark.sql.mullion.operator.engine.output.{Firing, PaneNames}
import org.apache.spark.sql.mullion.operator.engine.timers.{ActiveKey, KeyedPanes}
import org.apache.spark.sql.mullion.operator.engine.{OpenPane, PaneCounts, PaneProgram}
import org.apache.spark.sql.mullion.state.record.{FamilySpec, StatePartition}
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.MullionException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.{FiringsBegin, PaneFirings}
import dev.mullion.windows.rules.{AlignedRules, EarlyFiring, EmptyWindows, FiringKind, PaneRules, SlicedRules}
import dev.mullion.windows.sets.SliceSet
import dev.mullion.windows.spec.TimeMath

/** Panes of overlapping windows, as sums of shared slices: a row is stored once, in its slice. The slices of a key are
  * in its record (see [[KeyedPanes]]), and their accumulators in their own records (see [[Slices]]).
  *
  * Windows that also close without rows use that record too, and are kept here although they share no slices: each has
  * its own.
  */
private[operator] final class SlidingPanes(
    program: PaneProgram,
    rules: SlicedRules,
    clock: BatchClock,
    partition: StatePartition,
    counts: PaneCounts
) extends KeyedPanes[SlidingPanes.SlidingKey](program, clock, partition, counts) {
  import SlidingPanes._

  private val sums = new PaneSums(program, partition, slicesFamily(program), accumulators, accumulators.width)
  private val names = new PaneNames(program)
  private val slices: Slices = {
    val family = partition.family(slicesFamily(program))
    if (keepsBlocks(program)) new SlicesInBlocks(family, timed, accumulators, accumulators.width)
    else new EachSlice(family, timed, accumulators, sums, tooLarge)
  }
  // For the run of windows that fires.
  private lazy val windowSums = accumulators.newFold
  private val emitsEmpty = rules.refinements.empty
  private val layout = program.layout
  private val reopenedAt = layout.marked.getOrElse(-1)
  private val sliceAt = layout.slice
  private val rowsAt = layout.rows.getOrElse(-1)

  /** The first windows that were open before this batch, and that are open after it. */
  private val firstOpenBefore =
    if (clock.before == BatchClock.BeforeAllTime) Long.MinValue else rules.firstOpen(clock.closedBefore)
  private val firstOpenNow = rules.firstOpen(clock.closedNow)

  override protected def newKey(key: UnsafeRow): SlidingKey =
    new SlidingKey(
      rules,
      clock,
      key,
      ActiveKey.NoTimer,
      SliceSet.empty,
      PaneFirings.empty,
      None,
      0,
      firstOpenBefore,
      SliceSet.None
    )

  override protected def read(
      key: UnsafeRow,
      due: Long,
      panes: Array[Byte],
      firings: Option[Array[Byte]]
  ): SlidingKey = {
    val nextToClose = if (emitsEmpty) ByteBuffer.wrap(panes).getLong() else SliceSet.None
    val slices = slicesOf(rules, panes)
    val fired = firings.fold(PaneFirings.empty)(PaneFirings.fromBytes)
    val queued = rules.early.flatMap(fired.firstReadings)
    val open = rules.countWindows(slices, firstOpenBefore)
    new SlidingKey(rules, clock, key, due, slices, fired, queued, open, firstOpenBefore, nextToClose)
  }

  /** Late rows that reopen panes need no state: their panes are due at once. On a grid each belongs to one pane. */
  override protected def atOnce(row: InternalRow): Option[InternalRow] = rules match {
    case aligned: AlignedRules if isLate(row) =>
      val pane = row.getLong(sliceAt)
      counts.firedClose += 1
      val (start, end) = (aligned.paneStart(pane), aligned.paneEnd(pane))
      val name = output.nameOfReopened(start, end, clock.number)
      Some(output.fire(keyOf(row), start, end, Firing.Close, 0, name, accumulators.open(row)))
    case _ => None
  }

  private def isLate(row: InternalRow): Boolean = reopenedAt >= 0 && row.getBoolean(reopenedAt)

  override protected def update(active: SlidingKey, row: InternalRow): Unit = {
    val ordinal = row.getLong(sliceAt)
    if (isLate(row)) { active.late.put(ordinal, accumulators.rest(accumulators.open(row)).copy()); () }
    else {
      val isNew = active.slices.add(ordinal)
      if (isNew && counts.tracksEnds)
        rules.foreachWindowOfOne(active.slices, ordinal, firstOpenBefore)(w => counts.opensAt(rules.windowEnd(w)))
      slices.add(active.key, active.slices, ordinal, isNew, row)
      if (emitsEmpty) active.know(ordinal)
      if (firesOpen) active.newRows += ordinal -> (if (rowsAt < 0) 1L else row.getLong(rowsAt))
    }
  }

  /** The error for an accumulator in one slice, naming the last open window that holds it. */
  private def tooLarge(key: UnsafeRow, held: SliceSet, ordinal: Long, rest: UnsafeRow): Throwable = {
    var windows = List.empty[Long]
    rules.foreachWindow(held, ordinal, firstOpenBefore)(window => windows ::= window)
    sums.tooLarge(rest, windows.lastOption.fold(s"A pane${names.of(key)}")(nameOf(key, _)))
  }

  private def nameOf(key: UnsafeRow, window: Long) = names(rules.windowStart(window), rules.windowEnd(window), key)

  override protected def applied(active: SlidingKey): Iterator[InternalRow] = {
    // After all rows of the batch: they may determine the windows.
    if (firesOpen) {
      active.newRows.foreach { case (slice, rows) =>
        rules.foreachWindow(active.slices, slice, firstOpenBefore)(active.firings.touch(_, rows, clock))
      }
      active.newRows.clear()
    }
    val forRows =
      if (!rules.refinements.fires) Iterator.empty
      else {
        val firing = active.firings.afterRows(rules, clock)
        // One kind at a time: overlapping windows that fire alike are read in one pass.
        afterRowsKinds.iterator.flatMap(kind =>
          fireOpen(active, firing.collect { case (w, `kind`) => w }.toArray, kind)
        )
      }
    if (reopenedAt < 0) forRows else reopened(active) ++ forRows
  }

  /** The windows around late rows, of late rows alone. */
  private def reopened(active: SlidingKey): Iterator[InternalRow] = {
    val fold = accumulators.newFold
    val rows = active.late.entrySet.iterator.asScala.buffered
    counts.firedClose += active.late.size
    // The keys are copied first, because firing changes the map.
    active.late.keySet.toArray(Array.empty[java.lang.Long]).iterator.map { window =>
      fold.evictBefore(rules.firstSlice(window))
      while (rows.hasNext && rows.head.getKey <= rules.lastSlice(window)) {
        val row = rows.next()
        fold.push(row.getKey, row.getValue)
      }
      if (fold.isEmpty) throw new IllegalStateException(s"no row at $window")
      val sum = accumulators.load(fold.sum.copy())
      val (start, end) = (rules.windowStart(window), rules.windowEnd(window))
      output.fire(active.key, start, end, Firing.Close, 0, output.nameOfReopened(start, end, clock.number), sum)
    }
  }

  /** Its windows close from the first open one on; without a reading of the event clock, from the one that is open at
    * its first reading.
    */
  override protected def beginKnown(active: SlidingKey): Unit =
    active.nextToClose =
      if (rules.onProcessingTime) firstOpenNow else if (clock.before > 0) firstOpenBefore else AtFirstReading

  override protected def close(active: SlidingKey): Iterator[InternalRow] = {
    if (active.nextToClose == AtFirstReading) active.nextToClose = firstOpenNow
    val windows =
      if (emitsEmpty) active.allFrom(firstOpenBefore, firstOpenNow)
      else windowsFrom(active, firstOpenBefore, w => clock.closes(rules.windowCloseDue(w)))
    // Windows that close without rows were never open.
    counts.panesClosed +=
      (if (emitsEmpty) active.open - rules.countWindows(active.slices, firstOpenNow) else windows.length.toLong)
    if (counts.tracksEnds) {
      val withRows = if (emitsEmpty) windowsFrom(active, firstOpenBefore, _ < firstOpenNow) else windows
      withRows.foreach(window => counts.closesAt(rules.windowEnd(window)))
    }
    counts.firedClose += windows.length
    val closed = fire(active, windows, Firing.Close).andThen(dropClosed(active))
    if (rules.refinements.onTime) closed ++ ending(active) else closed
  }

  private def ending(active: SlidingKey): Iterator[InternalRow] =
    fireOpen(active, active.firings.onTime(firstOpenNow, rules, clock), FiringKind.OnTime)

  override protected def fireEarly(active: SlidingKey, early: EarlyFiring): Iterator[InternalRow] = {
    active.openFrom = firstOpenNow
    fireOpen(active, active.firings.due(early, clock), FiringKind.Early)
  }

  private def fireOpen(active: SlidingKey, windows: Array[Long], kind: FiringKind): Iterator[InternalRow] = {
    counts.fired(kind, windows.length.toLong)
    fire(active, windows, Firing.of(kind)).andThen {
      windows.foreach(active.firings.fire(_, kind, clock))
      if (!rules.refinements.accumulate) windows.foreach(clear(active, _))
    }
  }

  /** Clears a window that has fired and shares its slices with no other. */
  private def clear(active: SlidingKey, window: Long): Unit = {
    var ordinal = active.slices.atOrAfter(rules.firstSlice(window))
    while (ordinal <= rules.lastSlice(window) && ordinal != SliceSet.None) {
      slices.clear(active.key, ordinal)
      ordinal = active.slices.atOrAfter(ordinal + 1)
    }
  }

  /** Windows before the timer's have closed, although later ones still need their slices. */
  override protected def look(active: SlidingKey, due: Long): Iterator[OpenPane] = {
    val first =
      if (!firesOpen) rules.windowThatCloses(due)
      else if (active.firings.isEmpty) SliceSet.None
      else active.firings.first
    val windows = windowsFrom(active, first, _ => true)
    fire(active, windows, Firing.Close).zip(windows.iterator).map { case (row, window) =>
      OpenPane(row, active.firings.firedAt(window), end = Some(rules.windowEnd(window)))
    }
  }

  /** Windows without rows close up to the last one with rows. */
  override protected def lookAtEnd(active: SlidingKey, due: Long): Iterator[OpenPane] =
    if (!emitsEmpty) look(active, due)
    else if (active.slices.isEmpty) Iterator.empty
    else {
      var last = active.nextToClose - 1
      rules.foreachWindow(active.slices, active.slices.last, active.nextToClose)(window => last = window)
      fire(active, active.allFrom(active.nextToClose, last + 1), Firing.Close).map(OpenPane(_))
    }

  override protected def begin(active: SlidingKey, rules: FiringsBegin): Unit =
    if (rules.fired) active.firings.beginAgain(rules)
    else if (firesOpen)
      windowsFrom(active, firstOpenBefore, _ => true).foreach(active.firings.touch(_, rows = 0L, rules.clock))

  override protected def onApplied(active: SlidingKey): Unit = {
    slices.flush()
    val open = rules.countWindows(active.slices, active.openFrom)
    counts.panesOpened += open - active.open
    active.open = open
  }

  /** Removes the slices whose last pane has closed. */
  private def dropClosed(active: SlidingKey): Unit = {
    val live = rules.firstSlice(firstOpenNow)
    slices.removeBefore(active.key, active.slices, live)
    active.slices.removeBefore(live)
    active.firings.removeBefore(firstOpenNow)
    active.openFrom = firstOpenNow
    active.nextToClose = Math.max(active.nextToClose, firstOpenNow)
  }

  // A reusable buffer: an array builder would box each element.
  private var windows = new Array[Long](16)

  /** The windows with rows from `first` on, while `wanted`. */
  private def windowsFrom(active: SlidingKey, first: Long, wanted: Long => Boolean): Array[Long] = {
    var count = 0
    var window = rules.nextWindow(active.slices, first)
    while (window != SliceSet.None && wanted(window)) {
      if (count == windows.length) windows = Arrays.copyOf(windows, 2 * count)
      windows(count) = window
      count += 1
      window = rules.nextWindow(active.slices, window + 1)
    }
    Arrays.copyOf(windows, count)
  }

  /** One firing for each of `windows`, which are in order of time; each slice is read once. */
  private def fire(active: SlidingKey, windows: Array[Long], firing: UTF8String): Iterator[InternalRow] = {
    val first = endOfRun(windows, 0)
    if (first == 0) Iterator.empty
    else {
      val run = new Run(active, windows, 0, first, firing)
      if (first == windows.length) run else run ++ runs(active, windows, first, firing)
    }
  }

  private def runs(active: SlidingKey, windows: Array[Long], first: Int, firing: UTF8String): Iterator[InternalRow] =
    Iterator
      .unfold(first) { from =>
        val until = endOfRun(windows, from)
        Option.when(until > from)((new Run(active, windows, from, until, firing), until))
      }
      .flatten

  /** The end of the run that starts with the window at `from`. Windows that share slices or are adjacent are read in
    * one pass; slices between runs are not read.
    */
  private def endOfRun(windows: Array[Long], from: Int): Int = {
    var until = Math.min(from + 1, windows.length)
    while (
      until < windows.length &&
      rules.firstSlice(windows(until)) <= TimeMath.plus(rules.lastSlice(windows(until - 1)), 1)
    ) until += 1
    until
  }

  /** The firings of a run of windows. */
  private final class Run(active: SlidingKey, windows: Array[Long], from: Int, until: Int, firing: UTF8String)
      extends Iterator[InternalRow] {
    private val scan = slices.range(
      active.key,
      rules.firstSlice(windows(from)),
      TimeMath.plus(rules.lastSlice(windows(until - 1)), 1)
    )
    // From there on all windows share their slices, which are added up without a copy of each.
    private val shared = rules.firstSlice(windows(until - 1))
    private var fired = from
    windowSums.clear()

    override def hasNext: Boolean = fired < until

    override def next(): InternalRow = {
      val window = windows(fired)
      fired += 1
      try sumOf(window)
      catch { case e: MullionException => throw FailedAggregate.in(nameOf(active.key, window), e) }
    }

    private def sumOf(window: Long): InternalRow = {
      windowSums.evictBefore(rules.firstSlice(window))
      val last = rules.lastSlice(window)
      while (scan.isOn && scan.ordinal <= last && scan.ordinal < shared) {
        windowSums.push(scan.ordinal, scan.sum)
        scan.move()
      }
      scan.keepIn(windowSums, last)
      if (!hasNext) scan.close() else if (program.interruptsFirings) scan.hold()
      if (windowSums.isEmpty && !emitsEmpty)
        throw new IllegalStateException(s"window $window of ${active.slices} is empty")
      val sum = if (windowSums.isEmpty) accumulators.empty.copy() else windowSums.sum
      if (sums.isTooLarge(sum)) throw sums.tooLarge(sum, nameOf(active.key, window))
      val index = if (firesOpen) active.firings.fired(window) else 0
      val work = accumulators.load(sum)
      output.fire(active.key, rules.windowStart(window), rules.windowEnd(window), firing, index, work)
    }
  }
}

private[operator] object SlidingPanes {

  /** The first window of a known key before the first reading of the clock, in place of a number. */
  private val AtFirstReading = Long.MinValue

  /** The earliest reading of a clock: an event clock is at 0 before its first rows. */
  private val FirstReading = 1L

  private val afterRowsKinds = Seq(FiringKind.Early, FiringKind.OnTime, FiringKind.Update)

  /** The panes of one key.
    *
    * @param open
    *   the number of open panes before any close: first as loaded, then with the batch's rows
    * @param openFrom
    *   the first window that is open
    * @param nextToClose
    *   where windows without rows close too, the first that is still to close; none for a new key
    */
  final class SlidingKey(
      rules: SlicedRules,
      clock: BatchClock,
      val key: UnsafeRow,
      val timer: Long,
      val slices: SliceSet,
      val firings: PaneFirings,
      val queued: Option[(Long, Long)],
      var open: Long,
      var openFrom: Long,
      var nextToClose: Long
  ) extends ActiveKey {
    private def emitsEmpty = rules.refinements.empty

    /** Records a row: windows without rows close from its first open window on. */
    def know(slice: Long): Unit = {
      if (nextToClose == AtFirstReading) nextToClose = SliceSet.None
      rules.foreachWindow(slices, slice, openFrom)(w => nextToClose = Math.min(nextToClose, w))
    }

    /** The windows to close, with rows or without: those in `[first, until)`. */
    def allFrom(first: Long, until: Long): Array[Long] = {
      EmptyWindows.between(Math.max(first, nextToClose), until, clock.now, rules).toArray
    }

    /** The slices with new rows in this batch, and their number, if panes fire for them. */
    lazy val newRows: mutable.ArrayBuffer[(Long, Long)] = mutable.ArrayBuffer.empty

    /** Late rows that reopen windows around them. */
    lazy val late: java.util.TreeMap[java.lang.Long, UnsafeRow] = new java.util.TreeMap()

    override def isEmpty: Boolean = slices.isEmpty && nextToClose == SliceSet.None

    override def nextDue: Long = if (nextToClose == AtFirstReading) FirstReading
    else {
      val window = if (emitsEmpty) Math.max(openFrom, nextToClose) else rules.nextWindow(slices, openFrom)
      // Slices without a window are kept as long as a row with such a window may arrive.
      val close = if (window == SliceSet.None) rules.expires(slices.last) else rules.windowCloseDue(window)
      if (!rules.refinements.onTime) close
      else
        firings.firstNotOnTime(openFrom).fold(close) { window =>
          // A window that ended before it had rows is due now, and timers are read from the previous clock on.
          Math.min(close, Math.max(clock.now, rules.windowEnd(window)))
        }
    }

    private def panes: Array[Byte] =
      if (!emitsEmpty) slices.toBytes
      else {
        val bytes = slices.toBytes
        ByteBuffer.allocate(8 + bytes.length).putLong(nextToClose).put(bytes).array
      }

    override def firstReadings(early: EarlyFiring): Option[(Long, Long)] = firings.firstReadings(early)

    override def stored: (Array[Byte], Array[Byte]) =
      (panes, if (rules.firesOpen) firings.toBytes else None.orNull)
  }

  def families(program: PaneProgram): Seq[FamilySpec] =
    PaneSums.families(program, slicesFamily(program)) ++ KeyedPanes.families(program)

  /** The name of the records of slices. */
  private[operator] val Records = "slices"

  /** The slices of a key, from its record. */
  private[operator] def slicesOf(rules: PaneRules, panes: Array[Byte]): SliceSet =
    SliceSet.fromBytes(if (rules.refinements.empty) panes.drop(8) else panes)

  /** True if slices are in blocks: if windows share them, and all accumulators have a fixed width. */
  def keepsBlocks(program: PaneProgram): Boolean = (program.rules match {
    case aligned: AlignedRules => aligned.window.overlaps && !aligned.keepsApart
    case _                     => false
  }) && program.rows.isEmpty && Accumulators.areInPlace(program.functions) && PaneSums.notes(program).isEmpty &&
    SliceBlock.mayHold(program.functions.flatMap(_.aggBufferAttributes.map(_.dataType)))

  private def slicesFamily(program: PaneProgram): FamilySpec =
    KeyedPanes.accumulatorsFamily(program, Records, "ordinal", PaneSums.notes(program))
}
