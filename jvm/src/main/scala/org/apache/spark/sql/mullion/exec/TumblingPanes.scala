package org.apache.spark.sql.mullion.exec

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.state.{FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types._

import dev.mullion.windows.{AlignedWindow, BatchClock, EarlyFiring, PaneRules, TimeMath}

/** Panes that share nothing, of windows that do not overlap or that rows bring: one record for each pane, in the order
  * in which they close, so that the panes that close are the first ones, and a batch reads no other.
  *
  * {{{
  *   panes   (start, key)               -> accumulator [, firings so far, readings, whether queued]
  *   early   (event, wall, start, key)  -> a pane that waits to fire, by its readings of the clocks
  * }}}
  *
  * Where windows have no one size it is (end, key, start) in place of (start, key): see `PaneBounds`.
  *
  * Panes in the order of their readings are in the order in which they fall due (see `EarlyFiring`), so firing too
  * reads only what fires.
  */
private[exec] final class TumblingPanes(
    program: WindowProgram,
    rules: PaneRules,
    window: Option[AlignedWindow],
    clock: BatchClock,
    partition: StatePartition,
    counts: PaneCounts
) extends PaneEngine {
  import TumblingPanes._

  private val notes = notesOf(program)
  private val accumulators = program.accumulators(notes)
  private val output = program.paneOutput(layout(program), notes)
  private val panes = partition.family(panesFamily(program))
  private lazy val paneKey = UnsafeProjection.create(layout(program), program.partial)
  private val queue = rules.early.map(new Queue(_))
  private val reopenedAt = program.reopenedAt
  private val bounds = PaneBounds(program, window, layout(program))

  private val firedAt = accumulators.width
  private val eventAt = firedAt + 1
  private val wallAt = firedAt + 2
  private val queuedAt = firedAt + 3

  override def process(input: Iterator[InternalRow]): Iterator[InternalRow] =
    applied(input) ++ closing() ++ queue.fold(Iterator.empty[InternalRow])(_.firing())

  override def openPanes(): Iterator[InternalRow] = {
    val scan = panes.scan(Long.MinValue)
    scan.map { record =>
      val (key, work) = (record.key, accumulators.load(record.value))
      output.fire(key, bounds.start(key), bounds.end(key), Firing.Close, fired(work), work)
    }
  }

  /** Applies the rows; what comes out meanwhile are reopened panes, which need no state: they are due at once. */
  private def applied(input: Iterator[InternalRow]): Iterator[InternalRow] = reopenedAt match {
    case None =>
      input.foreach(update)
      Iterator.empty
    case Some(at) =>
      input.flatMap { row =>
        if (row.getBoolean(at)) Iterator.single(reopen(row))
        else { update(row); Iterator.empty }
      }
  }

  private def update(row: InternalRow): Unit = {
    val key = paneKey(row)
    val stored = panes.get(key)
    if (stored eq null) {
      val work = accumulators.open(row)
      queue.foreach { q =>
        work.setInt(firedAt, 0)
        q.push(key, work, clock.now, clock.wall)
      }
      panes.insert(key, accumulators.rest(work))
      counts.panesOpened += 1
    } else {
      val work = accumulators.load(stored)
      accumulators.add(work, row)
      queue.foreach { q =>
        if (!work.getBoolean(queuedAt)) q.push(key, work, work.getLong(eventAt), work.getLong(wallAt))
      }
      panes.update(key, accumulators.rest(work))
    }
  }

  private def reopen(row: InternalRow): InternalRow = {
    val key = paneKey(row)
    counts.firedClose += 1
    output.fire(key, bounds.start(key), bounds.end(key), Firing.Close, 0, accumulators.open(row))
  }

  private def fired(work: InternalRow): Int = if (queue.isDefined) work.getInt(firedAt) else 0

  private def closing(): Iterator[InternalRow] = {
    // A pane in state had not closed before this batch, so it ends after this.
    val first =
      if (clock.before == BatchClock.BeforeAllTime) Long.MinValue
      else bounds.orderOf(TimeMath.minus(clock.before, rules.allowedLateness))
    val scan = panes.scan(first)
    new DueScan(scan) {
      override protected def isDue(key: UnsafeRow): Boolean = {
        val due = rules.closeDue(bounds.end(key))
        if (!clock.closes(due)) counts.nextClose = due
        clock.closes(due)
      }

      override protected def fire(key: UnsafeRow, value: UnsafeRow): Iterator[InternalRow] = {
        val work = accumulators.load(value)
        val row = output.fire(key, bounds.start(key), bounds.end(key), Firing.Close, fired(work), work)
        queue.foreach { q =>
          if (work.getBoolean(queuedAt)) q.remove(key, work.getLong(eventAt), work.getLong(wallAt))
        }
        panes.remove(key)
        counts.panesClosed += 1
        counts.firedClose += 1
        Iterator.single(row)
      }
    }
  }

  /** The panes that wait to fire early. */
  private final class Queue(early: EarlyFiring) {
    private val family = partition.family(earlyFamily(program))
    private val readings = new GenericInternalRow(2)
    private val both = new JoinedRow()
    private val queueKey = UnsafeProjection.create(queueLayout(program), queueLayout(program))
    private val queuedPane = UnsafeProjection.create(layout(program), queueLayout(program))
    private var requeued = false

    def push(key: UnsafeRow, work: InternalRow, event: Long, wall: Long): Unit = {
      work.setLong(eventAt, event)
      work.setLong(wallAt, wall)
      work.setBoolean(queuedAt, true)
      family.insert(keyOf(key, event, wall), KeyOnly.value)
    }

    def remove(key: UnsafeRow, event: Long, wall: Long): Unit = family.remove(keyOf(key, event, wall))

    def firing(): Iterator[InternalRow] = new DueScan(family.scan(Long.MinValue)) {
      override protected def isDue(key: UnsafeRow): Boolean = {
        val due = early.isDue(key.getLong(0), key.getLong(1), clock)
        if (!due) waitsFrom(key.getLong(0), key.getLong(1))
        due
      }

      override protected def exhausted(): Unit = if (requeued) waitsFrom(clock.now, clock.wall)

      override protected def fire(queued: UnsafeRow, value: UnsafeRow): Iterator[InternalRow] = {
        val key = queuedPane(queued)
        family.remove(queued)
        val work = accumulators.load(panes.get(key))
        val row = output.fire(key, bounds.start(key), bounds.end(key), Firing.Early, fired(work), work)
        work.setInt(firedAt, fired(work) + 1)
        if (early.unchanged) { push(key, work, clock.now, clock.wall); requeued = true }
        else {
          work.setLong(eventAt, clock.now)
          work.setLong(wallAt, clock.wall)
          work.setBoolean(queuedAt, false)
        }
        panes.update(key, accumulators.rest(work))
        counts.firedEarly += 1
        Iterator.single(row)
      }
    }

    private def waitsFrom(event: Long, wall: Long): Unit = {
      counts.nextEarlyEvent = early.eventDue(event)
      counts.nextEarlyWall = early.wallDue(wall)
    }

    private def keyOf(key: UnsafeRow, event: Long, wall: Long): UnsafeRow = {
      readings.update(0, event)
      readings.update(1, wall)
      queueKey(both(readings, key))
    }
  }
}

private[exec] object TumblingPanes {

  def families(program: WindowProgram): Seq[FamilySpec] =
    panesFamily(program) +: program.rules.early.map(_ => earlyFamily(program)).toSeq

  /** Beside the accumulator, if panes fire early: firings so far, readings of the event and wall clocks, whether
    * queued.
    */
  private def notesOf(program: WindowProgram): Seq[DataType] =
    if (program.rules.early.isEmpty) Nil else Seq(IntegerType, LongType, LongType, BooleanType)

  private def layout(program: WindowProgram): Seq[Attribute] =
    program.timed(program.slice, program.keys ++ program.start)

  private val event = AttributeReference("event", LongType, nullable = false)()
  private val wall = AttributeReference("wall", LongType, nullable = false)()

  private def queueLayout(program: WindowProgram): Seq[Attribute] = event +: wall +: layout(program)

  private def panesFamily(program: WindowProgram): FamilySpec = FamilySpec(
    "panes",
    key = StructType(
      program.timed(StructField("start", LongType, nullable = false), program.keyFields ++ rangeStart(program))
    ),
    value = Accumulators.schema(program.functions, notesOf(program)),
    program.timeOrder
  )

  /** Where the time that records are in order of is the end. */
  private def rangeStart(program: WindowProgram): Option[StructField] =
    program.start.map(_ => StructField("range_start", LongType, nullable = false))

  private def earlyFamily(program: WindowProgram): FamilySpec = FamilySpec(
    "early",
    key = StructType(
      Seq(StructField("event", LongType, nullable = false), StructField("wall", LongType, nullable = false)) ++
        panesFamily(program).key
    ),
    value = KeyOnly.schema,
    RecordOrder.ByFirst(2)
  )
}
