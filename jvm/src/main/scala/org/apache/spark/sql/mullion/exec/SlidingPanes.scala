package org.apache.spark.sql.mullion.exec

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.state.{FamilySpec, StatePartition}
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.windows._

/** Panes of windows that overlap, as sums of shared slices: a row is stored once, in its slice. Which slices a key has
  * stands in its record (see [[KeyedPanes]]).
  *
  * {{{
  *   slices  (ordinal, key)      -> accumulator
  * }}}
  */
private[exec] final class SlidingPanes(
    program: WindowProgram,
    rules: AlignedRules,
    clock: BatchClock,
    partition: StatePartition,
    counts: PaneCounts
) extends KeyedPanes[SlidingPanes.Book](program, clock, partition, counts) {
  import SlidingPanes._
  import rules.grid

  private val slices = partition.family(slicesFamily(program))
  private val reopenedAt = program.reopenedAt
  private val sliceAt = program.keys.length
  private val ordinalAt = program.keys.length
  private val rowsAt = program.rowsAt.getOrElse(-1)

  /** The first windows that were open before this batch, and that are open after it. */
  private val firstOpenBefore =
    if (clock.before == BatchClock.BeforeAllTime) Long.MinValue else rules.firstOpen(clock.before)
  private val firstOpenNow = rules.firstOpen(clock.now)

  override protected def newBook(key: UnsafeRow): Book =
    new Book(rules, clock, key, None, SliceSet.empty, PaneFirings.empty, None, 0, firstOpenBefore)

  override protected def read(key: UnsafeRow, due: Long, panes: Array[Byte], firings: Option[Array[Byte]]): Book = {
    val slices = SliceSet.fromBytes(panes)
    val fired = firings.fold(PaneFirings.empty)(PaneFirings.fromBytes)
    val queued = rules.early.flatMap(fired.firstReadings)
    val open = slices.countWindows(grid, firstOpenBefore)
    new Book(rules, clock, key, Some(due), slices, fired, queued, open, firstOpenBefore)
  }

  /** Late rows that reopen panes need no state: those are due at once. */
  override protected def atOnce(row: InternalRow): Option[InternalRow] =
    Option.when(reopenedAt.exists(row.getBoolean)) {
      val start = row.getLong(sliceAt)
      counts.firedClose += 1
      output.fire(keyOf(row), start, rules.window.end(start), Firing.Close, 0, accumulators.open(row))
    }

  override protected def update(book: Book, row: InternalRow): Unit = {
    val ordinal = row.getLong(sliceAt)
    val key = timed(ordinal, book.key)
    if (book.slices.add(ordinal)) slices.insert(key, accumulators.rest(accumulators.open(row)))
    else {
      val work = accumulators.load(slices.get(key))
      accumulators.add(work, row)
      slices.update(key, accumulators.rest(work))
    }
    if (firesOpen) {
      var window = Math.max(firstOpenBefore, grid.firstWindow(ordinal))
      val last = grid.lastWindow(ordinal)
      val rows = if (rowsAt < 0) 1L else row.getLong(rowsAt)
      while (window <= last) { book.firings.touch(window, rows, clock); window += 1 }
    }
  }

  override protected def applied(book: Book): Iterator[InternalRow] =
    if (!rules.refinements.fires) Iterator.empty
    else {
      val firing = book.firings.afterRows(rules, clock)
      // Of one kind at a time: overlapping windows that fire alike are read in one go.
      afterRowsKinds.iterator.flatMap(kind => fireOpen(book, firing.collect { case (w, `kind`) => w }.toArray, kind))
    }

  override protected def close(book: Book): Iterator[InternalRow] = {
    val windows = windowsFrom(book, firstOpenBefore, w => clock.closes(rules.windowCloseDue(w)))
    counts.panesClosed += windows.length
    counts.firedClose += windows.length
    fire(book, windows, Firing.Close) ++ {
      dropClosed(book)
      if (rules.refinements.onTime)
        fireOpen(book, book.firings.onTime(firstOpenNow, rules, clock), FiringKind.OnTime)
      else Iterator.empty
    }
  }

  override protected def fireEarly(book: Book, early: EarlyFiring): Iterator[InternalRow] = {
    book.openFrom = firstOpenNow
    fireOpen(book, book.firings.due(early, clock), FiringKind.Early)
  }

  private def fireOpen(book: Book, windows: Array[Long], kind: FiringKind): Iterator[InternalRow] = {
    counts.fired(kind, windows.length.toLong)
    fire(book, windows, Firing.of(kind)) ++ {
      windows.foreach(book.firings.fire(_, kind, clock))
      Iterator.empty
    }
  }

  /** Windows before the one that the timer is for have closed, though their last slices are still there for later ones.
    */
  override protected def look(book: Book, due: Long): Iterator[InternalRow] = {
    val first = if (firesOpen) book.firings.first else rules.windowThatCloses(due)
    fire(book, windowsFrom(book, first, _ => true), Firing.Close)
  }

  override protected def onStored(book: Book): Unit =
    if (book.openFrom == firstOpenBefore)
      counts.panesOpened += book.slices.countWindows(grid, book.openFrom) - book.open

  /** Removes the slices whose last pane has closed. */
  private def dropClosed(book: Book): Unit = {
    val live = grid.firstSlice(firstOpenNow)
    var ordinal = if (book.slices.isEmpty) SliceSet.None else book.slices.first
    while (ordinal < live) {
      slices.remove(timed(ordinal, book.key))
      ordinal = book.slices.atOrAfter(ordinal + 1)
    }
    book.slices.removeBefore(live)
    book.firings.removeBefore(firstOpenNow)
    book.openFrom = firstOpenNow
  }

  /** The windows from `first` on that hold rows, as long as `wanted`. */
  private def windowsFrom(book: Book, first: Long, wanted: Long => Boolean): Array[Long] = {
    val windows = Array.newBuilder[Long]
    var window = book.slices.nextWindow(grid, first)
    while (window != SliceSet.None && wanted(window)) {
      windows += window
      window = book.slices.nextWindow(grid, window + 1)
    }
    windows.result()
  }

  /** One firing for each of `windows`, which are in order of time; each slice is read once. */
  private def fire(book: Book, windows: Array[Long], firing: UTF8String): Iterator[InternalRow] = {
    // Windows that share slices, or border on each other, are read in one go, and what lies between others is not.
    val runs = Seq.newBuilder[Array[Long]]
    var from = 0
    windows.indices.foreach { i =>
      if (i + 1 == windows.length || grid.firstSlice(windows(i + 1)) > TimeMath.plus(grid.lastSlice(windows(i)), 1)) {
        runs += windows.slice(from, i + 1)
        from = i + 1
      }
    }
    runs.result().iterator.flatMap(fireRun(book, _, firing))
  }

  private def fireRun(book: Book, windows: Array[Long], firing: UTF8String): Iterator[InternalRow] = {
    val fold = new WindowFold[UnsafeRow](accumulators.combine)
    val last = TimeMath.plus(grid.lastSlice(windows.last), 1)
    val scan = slices.range(timed(grid.firstSlice(windows.head), book.key).copy(), timed(last, book.key))
    val ordered = scan.buffered
    val fired = windows.iterator.map { window =>
      fold.evictBefore(grid.firstSlice(window))
      while (ordered.hasNext && ordered.head.key.getLong(ordinalAt) <= grid.lastSlice(window)) {
        val slice = ordered.next()
        fold.push(slice.key.getLong(ordinalAt), slice.value.copy())
      }
      val sum = fold.sum.getOrElse(throw new IllegalStateException(s"window $window of ${book.slices} is empty"))
      val index = if (firesOpen) book.firings.fired(window) else 0
      val work = accumulators.load(sum)
      output.fire(book.key, grid.windowStart(window), grid.windowEnd(window), firing, index, work)
    }
    fired ++ { scan.close(); Iterator.empty }
  }
}

private[exec] object SlidingPanes {

  private val afterRowsKinds = Seq(FiringKind.Early, FiringKind.OnTime, FiringKind.Update)

  /** The panes of one key.
    *
    * @param open
    *   how many panes were open when it was loaded
    * @param openFrom
    *   the first window that is open
    */
  final class Book(
      rules: AlignedRules,
      clock: BatchClock,
      val key: UnsafeRow,
      val timer: Option[Long],
      val slices: SliceSet,
      val firings: PaneFirings,
      val queued: Option[(Long, Long)],
      val open: Long,
      var openFrom: Long
  ) extends KeyBook {

    override def isEmpty: Boolean = slices.nextWindow(rules.grid, openFrom) == SliceSet.None

    override def nextDue: Long = {
      val close = rules.windowCloseDue(slices.nextWindow(rules.grid, openFrom))
      if (!rules.refinements.onTime) close
      else
        firings.firstNotOnTime(openFrom).fold(close) { window =>
          // A window that has ended before it had rows is due now, and timers are read from the clock before on.
          Math.min(close, Math.max(clock.now, rules.grid.windowEnd(window)))
        }
    }

    override def firstReadings(early: EarlyFiring): Option[(Long, Long)] = firings.firstReadings(early)

    override def stored: (Array[Byte], Array[Byte]) =
      (slices.toBytes, if (rules.firesOpen) firings.toBytes else None.orNull)
  }

  def families(program: WindowProgram): Seq[FamilySpec] = slicesFamily(program) +: KeyedPanes.families(program)

  private def slicesFamily(program: WindowProgram): FamilySpec =
    KeyedPanes.accumulatorsFamily(program, "slices", "ordinal")
}
