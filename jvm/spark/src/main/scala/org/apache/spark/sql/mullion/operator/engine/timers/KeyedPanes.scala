package org.apache.spark.sql.mullion.operator.engine.timers

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.rows.Projections
import org.apache.spark.sql.mullion.expressions.udf.FailedAggregate
import org.apache.spark.sql.mullion.operator.engine.Iterators.Rows
import org.apache.spark.sql.mullion.operator.engine.accumulators.{Accumulators, PaneSums}
import org.apache.spark.sql.mullion.operator.engine.output.{PaneNames, PaneOutput}
import org.apache.spark.sql.mullion.operator.engine.{AddingPanes, Iterators, OpenPane, PaneCounts, PaneProgram}
import org.apache.spark.sql.mullion.state.record.{FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.FiringsBegin
import dev.mullion.windows.rules.EarlyFiring

/** The panes of a key that a batch is processing. */
private[operator] trait ActiveKey extends WaitingKey {

  /** The due time of the key's timer in state; `ActiveKey.NoTimer` if it has none. */
  def timer: Long

  /** True if it has no open pane. */
  def isEmpty: Boolean

  /** The next time at which the clock affects its panes, if it has any; possibly the end of time. */
  def nextDue: Long

  /** The columns of its record after the next close time: two of bytes, of which the second may be null. */
  def stored: (Array[Byte], Array[Byte])
}

private[operator] object ActiveKey {

  /** The timer of a key without one in state; a real timer is never at this time. */
  val NoTimer: Long = Long.MinValue
}

/** Panes that are processed key by key: a key's record lists its panes, so that only existing ones are looked up, and
  * each key has one timer: for the next time at which a pane closes, or fires on time.
  *
  * {{{
  *   ...                         -> accumulators, depending on the kind of window
  *   keys    (key)               -> the close time of its next pane, its panes [, their firings, or their accumulators]
  *   timers  (due, key)          -> the keys with a pane to close, by its due time
  *   early   (event, wall, key)  -> the keys with a pane that waits to fire, by its readings of the clocks
  * }}}
  *
  * A key's record is read and written once per batch: see [[KeyRuns]].
  */
private[operator] abstract class KeyedPanes[K <: ActiveKey](
    program: PaneProgram,
    clock: BatchClock,
    partition: StatePartition,
    counts: PaneCounts
) extends AddingPanes {
  import KeyedPanes._

  protected val accumulators: Accumulators = Accumulators.of(program, PaneSums.notes(program))
  protected val output: PaneOutput = PaneOutput.of(program, program.keys, PaneSums.notes(program))
  protected val firesOpen: Boolean = program.rules.firesOpen

  /** The keys of accumulators. */
  protected lazy val timed: TimedKey = new TimedKey(keyTypes, RecordOrder.WithinKey)
  protected lazy val keyOf: UnsafeProjection = Projections(program.keys, program.partial)

  private val keyTypes = program.keys.map(_.dataType)
  private val keys = partition.family(keysFamily(program))
  private val timers = partition.family(timersFamily(program))
  private val timerAt = new TimedKey(keyTypes, RecordOrder.ByLast)
  private val dueAt = timersFamily(program).times.head
  private val timerChanges = new TimerChanges(timers, dueAt, keyTypes.length + 1)
  private lazy val timerToKey = timerAt.toKey
  private val queue = program.rules.early.map { early =>
    new EarlyKeys[K](early, EarlyKeys.of(program, partition), keyTypes, clock, counts) {
      override protected def load(key: UnsafeRow): K = KeyedPanes.this.load(key)
      override protected def fire(active: K): Iterator[InternalRow] = fireEarly(active, early)
      override protected def store(active: K): Unit = { KeyedPanes.this.store(active); () }
    }
  }
  private val runs = new KeyRuns[K](program.keys, program.partial)(load)
  private val record = new KeyRecord.Writer

  /** A key from state.
    *
    * @param due
    *   the due time of its timer
    * @param panes
    *   with `beside` the result of `ActiveKey.stored`
    */
  protected def read(key: UnsafeRow, due: Long, panes: Array[Byte], beside: Option[Array[Byte]]): K

  protected def newKey(key: UnsafeRow): K

  /** Applies a partial row. */
  protected def update(active: K, row: InternalRow): Unit

  /** The output of a key after the batch's rows. */
  protected def applied(active: K): Iterator[InternalRow] = Iterator.empty

  /** The firing of a partial row that needs no state, if it is one. */
  protected def atOnce(row: InternalRow): Option[InternalRow]

  /** Fires the closing panes of a key, and drops them afterwards; then fires panes on time. */
  protected def close(active: K): Iterator[InternalRow]

  /** Fires early panes of a key. */
  protected def fireEarly(active: K, early: EarlyFiring): Iterator[InternalRow]

  /** A key's open panes, for inspection. */
  protected def look(active: K, due: Long): Iterator[OpenPane]

  /** Called with a key after the batch's rows, before any of its panes close. */
  protected def onApplied(active: K): Unit = ()

  override def process(input: Iterator[InternalRow]): Iterator[InternalRow] =
    super.process(new PrefetchedRows(input, keys)(keyOf(_)))

  override def add(row: InternalRow): Iterator[InternalRow] = {
    val now = atOnce(row)
    if (now.isDefined) now.iterator
    else {
      val complete = runs.complete(row)
      val firings = if (complete.isEmpty) Iterator.empty else leaveAll(complete)
      if (firings.isEmpty) {
        applyRow(row)
        Iterator.empty
      } else firings.andThen(applyRow(row))
    }
  }

  private def applyRow(row: InternalRow): Unit =
    try update(runs.current(), row)
    catch {
      case e: MullionException => throw FailedAggregate.in(PaneNames.ofPartial(program, program.partial, row), e)
    }

  override def know(known: Iterator[UnsafeRow]): Unit = known.foreach { key =>
    val active = load(key)
    if (active.timer == ActiveKey.NoTimer) {
      beginKnown(active)
      store(active)
    }
  }

  /** Makes windows of a new key close without rows. */
  protected def beginKnown(active: K): Unit =
    throw new IllegalStateException(s"$this closes no windows without rows")

  /** The firings of complete keys: each key fires and is stored before the next one is loaded. */
  private def leaveAll(complete: Iterator[K]): Iterator[InternalRow] = {
    val first = leave(complete.next())
    if (complete.hasNext) first ++ complete.flatMap(leave) else first
  }

  override def finish(): Iterator[InternalRow] =
    (runs.remaining().flatMap(leave) ++ closing() ++ queue.fold(Iterator.empty[InternalRow])(_.firing()))
      .andThen(timerChanges.flush())

  /** The panes of a key that close at the end of the input. */
  protected def lookAtEnd(active: K, due: Long): Iterator[OpenPane] = look(active, due)

  override def remaining(): Iterator[InternalRow] = looked(lookAtEnd).map(_.row)

  override def openPanes(): Iterator[OpenPane] = looked(look)

  private def looked(at: (K, Long) => Iterator[OpenPane]): Iterator[OpenPane] =
    new Iterators.OfRecords(timers.scan(Long.MinValue))({ timer =>
      val due = timerAt.timeOf(timer.key.untilNextCall)
      at(load(timerToKey(timer.key.untilNextCall).copy()), due)
    })(())

  /** Finishes a key that has all its rows. */
  private def leave(active: K): Iterator[InternalRow] = {
    onApplied(active)
    // Due panes close here, because the key is loaded and its timer need not be found; early firings too.
    val isDue = !active.isEmpty && clock.closes(active.nextDue)
    val atOnce = applied(active)
    val closed =
      if (!isDue) atOnce
      else if (atOnce eq Iterator.empty) close(active)
      else atOnce ++ close(active)
    val firings = queue.fold(closed)(closed ++ _.firing(active))
    if (firings.isEmpty) {
      store(active)
      Iterator.empty
    } else firings.andThen { store(active); () }
  }

  /** Sets the timers of each key by the current rules.
    *
    * @param begin
    *   the transition of its panes to changed firing rules, if any; its queue entry is then gone
    */
  def setTimers(begin: Option[FiringsBegin]): Unit = {
    val records = keys.all()
    try
      records.foreach { record =>
        val active = load(record.key.copy())
        begin.foreach(this.begin(active, _))
        store(active, isQueued = begin.isEmpty)
      }
    finally records.close()
    timerChanges.flush()
  }

  /** Adopts changed firing rules. */
  protected def begin(active: K, rules: FiringsBegin): Unit

  private def closing(): Iterator[InternalRow] = {
    timerChanges.flush()
    new DueKeys[K](timers, dueAt, clock, counts, keyTypes)(timerToKey(_)) {
      override protected def load(key: UnsafeRow): K = KeyedPanes.this.load(key)
      override protected def fire(active: K): Iterator[InternalRow] = close(active)
      override protected def store(active: K): Long = KeyedPanes.this.store(active, hasTimer = false)
    }.firing()
  }

  private def load(key: UnsafeRow): K = {
    val stored = keys.look(key)
    if (stored.isAbsent) newKey(key)
    else read(key, KeyRecord.due(stored), KeyRecord.panes(stored), KeyRecord.beside(stored))
  }

  /** Writes a key, and its timers if they moved. Returns its next due time, or `PaneCounts.Never`.
    *
    * @param hasTimer
    *   whether its previous timer still exists
    * @param isQueued
    *   whether its previous queue entry still exists
    */
  private def store(active: K, hasTimer: Boolean = true, isQueued: Boolean = true): Long = {
    val stays = !active.isEmpty
    val wasThere = active.timer != ActiveKey.NoTimer
    val due = if (stays) active.nextDue else PaneCounts.Never
    val timer = if (hasTimer) active.timer else ActiveKey.NoTimer
    if (!stays || timer != due) {
      if (timer != ActiveKey.NoTimer) timerChanges.remove(timerAt(timer, active.key))
      if (stays) timerChanges.insert(timerAt(due, active.key))
    }
    if (stays) {
      val (panes, beside) = active.stored
      val value = record(due, panes, beside)
      if (wasThere) keys.update(active.key, value) else keys.insert(active.key, value)
    } else if (wasThere) keys.remove(active.key)
    queue.foreach(q => if (isQueued) q.move(active) else q.add(active))
    due
  }
}

private[operator] object KeyedPanes {
  import PaneProgram.time

  def families(program: PaneProgram): Seq[FamilySpec] =
    Seq(keysFamily(program), timersFamily(program)) ++ program.rules.early.map(_ => EarlyKeys.family(program))

  /** The accumulators of a key, in order of their times. */
  def accumulatorsFamily(
      program: PaneProgram,
      name: String,
      at: String,
      notes: Seq[DataType]
  ): FamilySpec = FamilySpec(
    name,
    key = StructType(program.keyFields :+ time(at)),
    value = Accumulators.schema(program.functions, notes),
    RecordOrder.WithinKey
  )

  private def keysFamily(program: PaneProgram): FamilySpec =
    KeyRecord.family(program, if (program.isSession) "accumulators" else "firings")

  private[operator] def timersFamily(program: PaneProgram): FamilySpec =
    FamilySpec("timers", StructType(program.keyFields :+ time("due")), KeyOnly.schema, RecordOrder.ByLast)
}
