package org.apache.spark.sql.mullion.operator.engine.aligned

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.rows.Projections
import org.apache.spark.sql.mullion.expressions.udf.FailedAggregate
import org.apache.spark.sql.mullion.operator.engine.accumulators.{Accumulators, PaneNotes, PaneSums}
import org.apache.spark.sql.mullion.operator.engine.output.{Firing, PaneNames, PaneOutput}
import org.apache.spark.sql.mullion.operator.engine.timers.{DueScan, KeyOnly, PrefetchedRows}
import org.apache.spark.sql.mullion.operator.engine.{AddingPanes, Iterators, OpenPane, PaneCounts, PaneProgram}
import org.apache.spark.sql.mullion.state.record.{BorrowedRow, FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.{AlignedRules, EarlyFiring, FiringKind, PaneRules}
import dev.mullion.windows.spec.TimeMath

/** Independent panes, of windows that do not overlap, share no slices or are defined by rows: one record per pane, in
  * order of their closes. Closing panes are therefore the first ones, and a batch reads no other.
  *
  * {{{
  *   panes   (start, key)               -> accumulator [, firings so far, readings, whether queued, rows since, whether on time]
  *   chunks  (start, key, number)       -> lists of aggregates that collect, where they are long: see `PaneSums`
  *   values  (start, key, function, ..) -> distinct values, where there are many: see `DistinctRecords`
  *   early   (event, wall, start, key)  -> a pane that waits to fire, by its readings of the clocks
  * }}}
  *
  * For overlapping windows the number takes the place of the start, and for windows of various sizes the key is (end,
  * key, start): see `PaneBounds`.
  *
  * Panes in the order of their readings fall due in that order (see `EarlyFiring`), so firing also only reads due
  * panes.
  */
private[operator] final class TumblingPanes(
    program: PaneProgram,
    rules: PaneRules,
    aligned: Option[AlignedRules],
    clock: BatchClock,
    partition: StatePartition,
    counts: PaneCounts
) extends AddingPanes {
  import TumblingPanes._

  private val noted = PaneNotes.types(rules)
  private val accumulators = Accumulators.of(program, noted ++ PaneSums.notes(program))
  private val notes = new PaneNotes(rules, accumulators.width)
  private val output = PaneOutput.of(program, layout(program), noted ++ PaneSums.notes(program))
  private val sums =
    new PaneSums(program, partition, panesFamily(program), accumulators, accumulators.width + noted.length)
  private lazy val names = new PaneNames(program, layout(program))
  private val panes = partition.family(panesFamily(program))
  private lazy val paneKey = Projections(layout(program), program.partial)
  private val queue = rules.early.map(new Queue(_))
  private val firesOpen = rules.firesOpen
  private val reopenedAt = program.layout.marked.getOrElse(-1)
  private val bounds = PaneBounds(program, aligned, layout(program))

  private val rowsInPartialAt = program.layout.rows.getOrElse(-1)

  override def process(input: Iterator[InternalRow]): Iterator[InternalRow] =
    super.process(new PrefetchedRows(input, panes)(paneKey(_)))

  /** Immediate output: panes that fire for their rows, which have one partial row each, and reopened panes, which need
    * no state because they are due at once.
    */
  override def add(row: InternalRow): Iterator[InternalRow] =
    try if (reopenedAt >= 0 && row.getBoolean(reopenedAt)) Iterator.single(reopen(row)) else update(row).iterator
    catch {
      case e: MullionException =>
        val key = paneKey(row)
        throw FailedAggregate.in(names(bounds.start(key), bounds.end(key), key), e)
    }

  override def finish(): Iterator[InternalRow] =
    closing() ++ ending() ++ queue.fold(Iterator.empty[InternalRow])(_.firing())

  override def openPanes(): Iterator[OpenPane] = {
    new Iterators.OfRecords(panes.scan(Long.MinValue))({ record =>
      val (key, work) = (sums.keyThroughout(record.key), accumulators.load(record.value.untilNextCall))
      val end = bounds.end(key)
      val row = output.fire(key, bounds.start(key), end, Firing.Close, notes.fired(work), sums.shown(key, work))
      Iterator.single(OpenPane(row, Option.when(firesOpen)(notes.wallReading(work)), end = Some(end)))
    })(())
  }

  private def update(row: InternalRow): Option[InternalRow] = {
    val key = paneKey(row)
    val stored = panes.get(key)
    if (stored.isAbsent) {
      val work = accumulators.open(row)
      notes.open(work, clock)
      val firing = if (firesOpen) noteRows(key, work, row) else None
      panes.insert(key, toState(key, work))
      queue.foreach(_.flush())
      counts.opened(bounds.end(key))
      firing
    } else {
      val work = accumulators.load(stored.untilNextCall)
      accumulators.add(work, row)
      val firing = if (firesOpen) noteRows(key, work, row) else None
      panes.update(key, toState(key, work))
      queue.foreach(_.flush())
      firing
    }
  }

  /** A pane in its stored form. */
  private def toState(key: UnsafeRow, work: InternalRow): UnsafeRow = {
    val rest = sums.store(key, work)
    if (sums.isTooLarge(rest)) throw sums.tooLarge(rest, names(bounds.start(key), bounds.end(key), key))
    rest
  }

  /** Records the rows of a partial row. Returns the resulting firing, or one that is due in this batch anyway, because
    * the pane is already loaded.
    */
  private def noteRows(key: UnsafeRow, work: InternalRow, row: InternalRow): Option[InternalRow] = {
    sums.settle(key, work)
    notes.addRows(work, if (rowsInPartialAt < 0) 1L else row.getLong(rowsInPartialAt))
    val end = bounds.end(key)
    val onTime = notes.wasOnTime(work)
    val kind = rules
      .afterRows(end, notes.rows(work), onTime, clock)
      .orElse(rules.earlyAfterRows(end, notes.eventReading(work), notes.wallReading(work), onTime, clock))
    if (kind.isEmpty && !onTime) queue.foreach(_.add(key, work))
    kind.map(fireOpen(key, work, _))
  }

  /** Fires a pane that stays open. The caller stores its accumulator, with its notes, and flushes the queue. */
  private def fireOpen(key: UnsafeRow, work: InternalRow, kind: FiringKind): InternalRow = {
    val shown = sums.shown(key, work)
    val row = output.fire(key, bounds.start(key), bounds.end(key), Firing.of(kind), notes.fired(work), shown)
    counts.fired(kind)
    queue.foreach(_.remove(key, work))
    notes.fire(work, clock)
    if (kind == FiringKind.OnTime) notes.setOnTime(work)
    if (!notes.wasOnTime(work)) queue.filter(_.unchanged).foreach(_.add(key, work))
    if (!rules.refinements.accumulate) sums.clear(key, work)
    row
  }

  private def reopen(row: InternalRow): InternalRow = {
    val key = paneKey(row)
    counts.firedClose += 1
    val (start, end) = (bounds.start(key), bounds.end(key))
    val name = output.nameOfReopened(start, end, clock.number)
    output.fire(key, start, end, Firing.Close, 0, name, accumulators.open(row))
  }

  /** Queues each pane that waits to fire early by changed rules; the queue must be empty. */
  def setQueue(): Unit = {
    val records = panes.all()
    try
      records.foreach { record =>
        val work = accumulators.load(record.value.untilNextCall)
        notes.setQueued(work, queued = false)
        queue
          .filter(q => !notes.wasOnTime(work) && (q.unchanged || notes.rows(work) > 0))
          .foreach(_.add(record.key.untilNextCall, work))
        panes.update(record.key.untilNextCall, accumulators.rest(work))
        queue.foreach(_.flush())
      }
    finally records.close()
  }

  private def closing(): Iterator[InternalRow] = {
    // A pane in state had not closed before this batch, so it ends after this.
    val first =
      if (clock.before == BatchClock.BeforeAllTime) Long.MinValue
      else bounds.orderOf(TimeMath.minus(clock.closedBefore, rules.allowedLateness))
    val closes = new DueScan(panes.scan(first)) {
      override protected def isDue(key: UnsafeRow): Boolean = clock.closes(rules.closeDue(bounds.end(key)))

      override protected def rest(first: Option[UnsafeRow]): Unit =
        first.foreach(key => counts.nextClose = rules.closeDue(bounds.end(key)))

      override protected def fire(borrowed: UnsafeRow, value: UnsafeRow): Iterator[InternalRow] = {
        val key = sums.keyThroughout(BorrowedRow(borrowed))
        val work = accumulators.load(value)
        val shown = sums.shown(key, work)
        val end = bounds.end(key)
        val row = output.fire(key, bounds.start(key), end, Firing.Close, notes.fired(work), shown)
        queue.foreach(_.remove(key, work))
        sums.drop(key, work)
        remove()
        queue.foreach(_.flush())
        counts.closed(end)
        counts.firedClose += 1
        Iterator.single(row)
      }
    }
    closes.firing()
  }

  /** The open panes whose end the clock has passed. */
  private def ending(): Iterator[InternalRow] =
    if (!rules.refinements.onTime) Iterator.empty
    else {
      // Those that ended before were on time then, or with their first rows.
      val endedBefore = if (clock.rulesBegin) BatchClock.BeforeAllTime else clock.before
      val lastEnded = Math.max(endedBefore, TimeMath.minus(clock.now, rules.allowedLateness))
      val onTime = new DueScan(panes.scan(TimeMath.plus(bounds.orderOf(lastEnded), 1))) {
        override protected def isDue(key: UnsafeRow): Boolean = rules.isOnTime(bounds.end(key), clock)

        override protected def rest(first: Option[UnsafeRow]): Unit =
          first.foreach(key => counts.nextClose = Math.min(counts.nextClose, bounds.end(key)))

        override protected def fire(borrowed: UnsafeRow, value: UnsafeRow): Iterator[InternalRow] = {
          val key = sums.keyThroughout(BorrowedRow(borrowed))
          val work = accumulators.load(value)
          if (notes.wasOnTime(work)) Iterator.empty
          else {
            val row = fireOpen(key, work, FiringKind.OnTime)
            panes.update(key, toState(key, work))
            queue.foreach(_.flush())
            Iterator.single(row)
          }
        }
      }
      onTime.firing()
    }

  /** The panes that wait to fire early. Changes are delayed until `flush`: their accumulator may be a borrowed row,
    * which the caller stores first.
    */
  private final class Queue(early: EarlyFiring) {
    private val family = partition.family(earlyFamily(program))
    private val readings = new GenericInternalRow(2)
    private val both = new JoinedRow()
    private val insertKey = Projections(queueLayout(program), queueLayout(program))
    private val removeKey = Projections(queueLayout(program), queueLayout(program))
    // The changes of one pane; null for none.
    private var insertion: UnsafeRow = _
    private var removal: UnsafeRow = _
    private val queuedPane = Projections(layout(program), queueLayout(program))
    private var requeued = false

    def unchanged: Boolean = early.unchanged

    /** Queues a pane by its readings, unless it is queued. */
    def add(key: UnsafeRow, work: InternalRow): Unit = if (!notes.isQueued(work)) {
      notes.setQueued(work, queued = true)
      insertion = keyOf(insertKey, key, work)
    }

    def remove(key: UnsafeRow, work: InternalRow): Unit = if (notes.isQueued(work)) {
      notes.setQueued(work, queued = false)
      removal = keyOf(removeKey, key, work)
    }

    /** Writes the changes of the pane that has just been stored. */
    def flush(): Unit = {
      if (removal ne null) family.remove(removal)
      if (insertion ne null) family.insert(insertion, KeyOnly.value)
      removal = null
      insertion = null
    }

    def firing(): Iterator[InternalRow] = new Due().firing()

    private final class Due extends DueScan(family.scan(Long.MinValue)) {
      override protected def isDue(key: UnsafeRow): Boolean = early.isDue(key.getLong(0), key.getLong(1), clock)

      // Those that have fired wait behind all others.
      override protected def rest(first: Option[UnsafeRow]): Unit = first match {
        case Some(key) => waitsFrom(key.getLong(0), key.getLong(1))
        case None      => if (requeued) waitsFrom(clock.now, clock.wall)
      }

      override protected def fire(queued: UnsafeRow, value: UnsafeRow): Iterator[InternalRow] = {
        val key = queuedPane(queued)
        val work = accumulators.load(panes.get(key).untilNextCall)
        val row = fireOpen(key, work, FiringKind.Early)
        requeued = early.unchanged
        panes.update(key, toState(key, work))
        flush()
        Iterator.single(row)
      }
    }

    private def waitsFrom(event: Long, wall: Long): Unit = {
      counts.nextEarlyEvent = early.eventDue(event, clock)
      counts.nextByWall = early.wallDue(wall)
    }

    private def keyOf(to: UnsafeProjection, key: UnsafeRow, work: InternalRow): UnsafeRow = {
      readings.update(0, notes.eventReading(work))
      readings.update(1, notes.wallReading(work))
      to(both(readings, key))
    }
  }
}

private[operator] object TumblingPanes {

  def families(program: PaneProgram): Seq[FamilySpec] =
    PaneSums.families(program, panesFamily(program)) ++ program.rules.early.map(_ => earlyFamily(program))

  private def layout(program: PaneProgram): Seq[Attribute] =
    (program.keys ++ program.start) :+ program.slice

  private val event = AttributeReference("event", LongType, nullable = false)()
  private val wall = AttributeReference("wall", LongType, nullable = false)()

  private def queueLayout(program: PaneProgram): Seq[Attribute] = event +: wall +: layout(program)

  private def panesFamily(program: PaneProgram): FamilySpec = FamilySpec(
    "panes",
    key = StructType(
      (program.keyFields ++ rangeStart(program)) :+ StructField("start", LongType, nullable = false)
    ),
    value = Accumulators.schema(program.functions, PaneNotes.types(program.rules) ++ PaneSums.notes(program)),
    RecordOrder.ByLast
  )

  /** The additional key column, where records are in order of the end. */
  private def rangeStart(program: PaneProgram): Option[StructField] =
    program.start.map(_ => StructField("range_start", LongType, nullable = false))

  private[operator] def earlyFamily(program: PaneProgram): FamilySpec = FamilySpec(
    "early",
    key = StructType(
      Seq(StructField("event", LongType, nullable = false), StructField("wall", LongType, nullable = false)) ++
        panesFamily(program).key
    ),
    value = KeyOnly.schema,
    RecordOrder.ByFirst(2)
  )
}
