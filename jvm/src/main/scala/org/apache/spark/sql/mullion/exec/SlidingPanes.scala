package org.apache.spark.sql.mullion.exec

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.state.{FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.windows.{BatchClock, EarlyFiring, PaneFirings, SliceSet, WindowFold}

/** Panes of windows that overlap, as sums of shared slices: a row is stored once, in its slice. Which slices a key has
  * stands in a record of its own, so that nothing is looked for that is not there, and each key has one timer: when its
  * next pane closes.
  *
  * {{{
  *   slices  (ordinal, key)      -> accumulator
  *   keys    (key)               -> when its next pane closes, its slices [, firings of its panes]
  *   timers  (due, key)          -> the keys that have a pane to close, by when
  *   early   (event, wall, key)  -> the keys that have a pane waiting to fire, by its readings of the clocks
  * }}}
  *
  * The input comes with the rows of a key together, so that a key's record is read and written once a batch.
  */
private[exec] final class SlidingPanes(
    program: WindowProgram,
    clock: BatchClock,
    partition: StatePartition,
    counts: PaneCounts
) extends PaneEngine {
  import SlidingPanes._
  import program.rules
  import rules.grid

  private val accumulators = program.accumulators(Nil)
  private val output = program.paneOutput(program.keys, Nil)
  private val slices = partition.family(slicesFamily(program))
  private val keys = partition.family(keysFamily(program))
  private val timers = partition.family(timersFamily(program))
  private val reopenedAt = program.reopenedAt
  private val sliceAt = program.keys.length

  private lazy val keyOf = UnsafeProjection.create(program.keys, program.partial)
  private val keyTypes = program.keys.map(_.dataType)
  private val timed = new TimedKey(keyTypes, program.timeOrder)
  private val dueAt = timersFamily(program).times.head
  private lazy val timerToKey = timed.toKey
  private val queue = rules.early.map(new Queue(_))
  private lazy val keyValue = UnsafeProjection.create(keysFamily(program).value)

  /** The first windows that were open before this batch, and that are open after it. */
  private val firstOpenBefore =
    if (clock.before == BatchClock.BeforeAllTime) Long.MinValue else rules.firstOpen(clock.before)
  private val firstOpenNow = rules.firstOpen(clock.now)

  override def process(input: Iterator[InternalRow]): Iterator[InternalRow] =
    applied(input) ++ closing() ++ queue.fold(Iterator.empty[InternalRow])(_.firing())

  override def openPanes(): Iterator[InternalRow] =
    timers.scan(Long.MinValue).flatMap { timer =>
      val panes = load(timerToKey(timer.key).copy())
      // Windows before the one that the timer is for have closed, though their last slices are still there for later ones.
      val windows = windowsFrom(panes, rules.windowThatCloses(timer.key.getLong(dueAt)), _ => true)
      fire(panes, windows, Firing.Close)
    }

  /** Applies the rows; what comes out meanwhile are reopened panes, which need no state: they are due at once. */
  private def applied(input: Iterator[InternalRow]): Iterator[InternalRow] = {
    var current = Option.empty[KeyPanes]
    val reopened = input.flatMap { row =>
      if (reopenedAt.exists(row.getBoolean)) {
        val start = row.getLong(sliceAt)
        counts.firedClose += 1
        val work = accumulators.open(row)
        Iterator.single(output.fire(keyOf(row), start, rules.window.end(start), Firing.Close, 0, work))
      } else {
        val key = keyOf(row)
        if (!current.exists(_.key == key)) {
          current.foreach(store)
          current = Some(load(key.copy()))
        }
        current.foreach(update(_, row))
        Iterator.empty
      }
    }
    reopened ++ { current.foreach(store); Iterator.empty }
  }

  private def update(panes: KeyPanes, row: InternalRow): Unit = {
    val ordinal = row.getLong(sliceAt)
    val key = timed(ordinal, panes.key)
    if (panes.slices.add(ordinal)) slices.insert(key, accumulators.rest(accumulators.open(row)))
    else {
      val work = accumulators.load(slices.get(key))
      accumulators.add(work, row)
      slices.update(key, accumulators.rest(work))
    }
    if (queue.isDefined) {
      var window = Math.max(firstOpenBefore, grid.firstWindow(ordinal))
      val last = grid.lastWindow(ordinal)
      while (window <= last) { panes.firings.touch(window, clock); window += 1 }
    }
  }

  private def closing(): Iterator[InternalRow] = {
    // What is in state had not closed before this batch.
    val first = if (clock.before == BatchClock.BeforeAllTime) Long.MinValue else clock.before
    new DueScan(timers.scan(first)) {
      private var waiting = PaneCounts.Never

      override protected def isDue(timer: UnsafeRow): Boolean = {
        val due = timer.getLong(dueAt)
        if (!clock.closes(due)) counts.nextClose = Math.min(waiting, due)
        clock.closes(due)
      }

      override protected def exhausted(): Unit = counts.nextClose = waiting

      override protected def fire(timer: UnsafeRow, value: UnsafeRow): Iterator[InternalRow] = {
        val panes = load(timerToKey(timer).copy())
        val windows = windowsFrom(panes, firstOpenBefore, w => clock.closes(rules.windowCloseDue(w)))
        counts.panesClosed += windows.length
        counts.firedClose += windows.length
        SlidingPanes.this.fire(panes, windows, Firing.Close) ++ {
          dropClosed(panes)
          store(panes)
          waiting = Math.min(waiting, panes.due)
          Iterator.empty
        }
      }
    }
  }

  /** Removes the slices whose last pane has closed. */
  private def dropClosed(panes: KeyPanes): Unit = {
    val live = grid.firstSlice(firstOpenNow)
    var ordinal = if (panes.slices.isEmpty) SliceSet.None else panes.slices.first
    while (ordinal < live) {
      slices.remove(timed(ordinal, panes.key))
      ordinal = panes.slices.atOrAfter(ordinal + 1)
    }
    panes.slices.removeBefore(live)
    panes.firings.removeBefore(firstOpenNow)
    panes.openFrom = firstOpenNow
  }

  /** The windows from `first` on that hold rows, as long as `wanted`. */
  private def windowsFrom(panes: KeyPanes, first: Long, wanted: Long => Boolean): Array[Long] = {
    val windows = Array.newBuilder[Long]
    var window = panes.slices.nextWindow(grid, first)
    while (window != SliceSet.None && wanted(window)) {
      windows += window
      window = panes.slices.nextWindow(grid, window + 1)
    }
    windows.result()
  }

  /** One firing for each of `windows`, which are in order of time; each slice is read once. */
  private def fire(panes: KeyPanes, windows: Array[Long], firing: UTF8String): Iterator[InternalRow] = {
    val fold = new WindowFold[UnsafeRow](accumulators.combine)
    var next = SliceSet.None
    windows.iterator.zipWithIndex.map { case (window, i) =>
      val first = grid.firstSlice(window)
      val last = grid.lastSlice(window)
      fold.evictBefore(first)
      next = if (i == 0) panes.slices.atOrAfter(first) else Math.max(next, panes.slices.atOrAfter(first))
      while (next <= last) {
        fold.push(next, slices.get(timed(next, panes.key)).copy())
        next = panes.slices.atOrAfter(next + 1)
      }
      val sum = fold.sum.getOrElse(throw new IllegalStateException(s"window $window of ${panes.slices} is empty"))
      val index = if (queue.isDefined) panes.firings.fired(window) else 0
      val work = accumulators.load(sum)
      output.fire(panes.key, grid.windowStart(window), grid.windowEnd(window), firing, index, work)
    }
  }

  private def load(key: UnsafeRow): KeyPanes = {
    val stored = keys.get(key)
    if (stored eq null) new KeyPanes(key, None, SliceSet.empty, PaneFirings.empty, None, 0, firstOpenBefore)
    else {
      val slices = SliceSet.fromBytes(stored.getBinary(1))
      val firings = if (stored.isNullAt(2)) PaneFirings.empty else PaneFirings.fromBytes(stored.getBinary(2))
      val queued = rules.early.flatMap(firings.firstReadings)
      new KeyPanes(
        key,
        Some(stored.getLong(0)),
        slices,
        firings,
        queued,
        slices.countWindows(grid, firstOpenBefore),
        firstOpenBefore
      )
    }
  }

  /** Writes back what is known of a key, and its timers where they moved. */
  private def store(panes: KeyPanes): Unit = {
    val window = panes.slices.nextWindow(grid, panes.openFrom)
    val due = if (window == SliceSet.None) PaneCounts.Never else rules.windowCloseDue(window)
    panes.timer.filter(_ != due).foreach(old => timers.remove(timed(old, panes.key)))
    if (window == SliceSet.None) {
      if (panes.timer.isDefined) keys.remove(panes.key)
    } else {
      if (!panes.timer.contains(due)) timers.insert(timed(due, panes.key), KeyOnly.value)
      val firings = if (queue.isDefined) panes.firings.toBytes else None.orNull
      val value = keyValue(InternalRow(due, panes.slices.toBytes, firings))
      if (panes.timer.isDefined) keys.update(panes.key, value) else keys.insert(panes.key, value)
    }
    queue.foreach(_.move(panes))
    panes.due = due
    val open = panes.slices.countWindows(grid, panes.openFrom)
    if (panes.openFrom == firstOpenBefore) counts.panesOpened += open - panes.open
  }

  /** The keys with a pane that waits to fire early. */
  private final class Queue(early: EarlyFiring) {
    private val family = partition.family(earlyFamily(program))
    private val queued = new TimedKey(keyTypes, RecordOrder.ByFirst(2))
    private val queuedToKey = queued.toKey

    /** Puts a key where its first waiting pane is now. */
    def move(panes: KeyPanes): Unit = {
      val now = panes.firings.firstReadings(early)
      if (now != panes.queued) {
        panes.queued.foreach { case (event, wall) => family.remove(queued(event, wall, panes.key)) }
        now.foreach { case (event, wall) => family.insert(queued(event, wall, panes.key), KeyOnly.value) }
      }
    }

    def firing(): Iterator[InternalRow] = new DueScan(family.scan(Long.MinValue)) {
      private var waiting = Option.empty[(Long, Long)]

      override protected def isDue(key: UnsafeRow): Boolean = {
        val readings = (key.getLong(0), key.getLong(1))
        val due = early.isDue(readings._1, readings._2, clock)
        if (!due) waitsFrom(Some(readings))
        due
      }

      override protected def exhausted(): Unit = waitsFrom(None)

      override protected def fire(key: UnsafeRow, value: UnsafeRow): Iterator[InternalRow] = {
        val panes = load(queuedToKey(key).copy())
        panes.openFrom = firstOpenNow
        val windows = panes.firings.due(early, clock)
        counts.firedEarly += windows.length
        SlidingPanes.this.fire(panes, windows, Firing.Early) ++ {
          windows.foreach(panes.firings.fire(_, clock))
          panes.firings.firstReadings(early).foreach(r => waiting = Some(waiting.fold(r)(first(_, r))))
          store(panes)
          Iterator.empty
        }
      }

      private def waitsFrom(readings: Option[(Long, Long)]): Unit =
        (readings ++ waiting).reduceOption(first).foreach { case (event, wall) =>
          counts.nextEarlyEvent = early.eventDue(event)
          counts.nextEarlyWall = early.wallDue(wall)
        }

      private def first(a: (Long, Long), b: (Long, Long)): (Long, Long) = (Math.min(a._1, b._1), Math.min(a._2, b._2))
    }
  }
}

private[exec] object SlidingPanes {

  /** The panes of one key, while a batch works on them.
    *
    * @param timer
    *   when the key's timer in state is due, if it has one
    * @param queued
    *   the readings that the key waits under to fire early in state, if it does
    * @param open
    *   how many panes were open when it was loaded
    * @param openFrom
    *   the first window that is open
    */
  private final class KeyPanes(
      val key: UnsafeRow,
      val timer: Option[Long],
      val slices: SliceSet,
      val firings: PaneFirings,
      val queued: Option[(Long, Long)],
      val open: Long,
      var openFrom: Long
  ) {
    var due: Long = PaneCounts.Never
  }

  /** Keys with one or two times. */
  private final class TimedKey(keyTypes: Seq[DataType], order: RecordOrder) {
    private val times = order match {
      case RecordOrder.ByFirst(of) => of
      case _                       => 1
    }
    private val timesFirst = order != RecordOrder.ByLast
    private val timesRow = new GenericInternalRow(times)
    private val both = new JoinedRow()
    private val projection = {
      val key = keyTypes.zipWithIndex.map { case (t, i) => BoundReference(times + i, t, nullable = true) }
      val time = (0 until times).map(BoundReference(_, LongType, nullable = false))
      UnsafeProjection.create(if (timesFirst) time ++ key else key ++ time)
    }

    def apply(time: Long, key: UnsafeRow): UnsafeRow = {
      timesRow.update(0, time)
      projection(both(timesRow, key))
    }

    def apply(event: Long, wall: Long, key: UnsafeRow): UnsafeRow = {
      timesRow.update(1, wall)
      apply(event, key)
    }

    /** The key without its times. */
    def toKey: UnsafeProjection = {
      val from = if (timesFirst) times else 0
      UnsafeProjection.create(keyTypes.zipWithIndex.map { case (t, i) => BoundReference(from + i, t, nullable = true) })
    }
  }

  def families(program: WindowProgram): Seq[FamilySpec] =
    Seq(slicesFamily(program), keysFamily(program), timersFamily(program)) ++ program.rules.early.map(_ =>
      earlyFamily(program)
    )

  private def time(name: String) = StructField(name, LongType, nullable = false)

  private def slicesFamily(program: WindowProgram): FamilySpec = FamilySpec(
    "slices",
    key = StructType(program.timed(time("ordinal"), program.keyFields)),
    value = Accumulators.schema(program.functions, Nil),
    // Never scanned; but in RocksDB slices of one time are best kept together, since they come and go together.
    if (program.timeOrder == RecordOrder.ByLast) RecordOrder.ByLast else RecordOrder.Unordered
  )

  private def keysFamily(program: WindowProgram): FamilySpec = FamilySpec(
    "keys",
    key = StructType(program.keyFields),
    value = new StructType().add(time("due")).add("slices", BinaryType, nullable = false).add("firings", BinaryType),
    RecordOrder.Unordered
  )

  private def timersFamily(program: WindowProgram): FamilySpec =
    FamilySpec("timers", StructType(program.timed(time("due"), program.keyFields)), KeyOnly.schema, program.timeOrder)

  private def earlyFamily(program: WindowProgram): FamilySpec = FamilySpec(
    "early",
    StructType(Seq(time("event"), time("wall")) ++ program.keyFields),
    KeyOnly.schema,
    RecordOrder.ByFirst(2)
  )
}
