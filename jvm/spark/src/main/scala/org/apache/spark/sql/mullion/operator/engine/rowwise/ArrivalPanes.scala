package org.apache.spark.sql.mullion.operator.engine.rowwise

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.rows.RowUpdate
import org.apache.spark.sql.mullion.expressions.udf.FailedAggregate
import org.apache.spark.sql.mullion.operator.engine.Iterators.Rows
import org.apache.spark.sql.mullion.operator.engine.accumulators.Accumulators
import org.apache.spark.sql.mullion.operator.engine.output.{Firing, LateOutput, PaneCondition, PaneName, PaneOutput}
import org.apache.spark.sql.mullion.operator.engine.timers.{
  ActiveKey,
  DueKeys,
  EarlyKeys,
  KeyOnly,
  KeyRecord,
  KeyRuns,
  KeyedPanes,
  TimedKey
}
import org.apache.spark.sql.mullion.operator.engine.{
  Iterators,
  OpenPane,
  PaneCounts,
  PaneEngine,
  PaneProgram,
  RowProgram
}
import org.apache.spark.sql.mullion.state.record.{BorrowedRow, Family, RecordOrder, StatePartition}
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.MullionException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.{ArrivalPane, Arriving, Fate}
import dev.mullion.windows.rules.{EarlyFiring, LatePolicy, NumberedRules}
import dev.mullion.windows.sets.SlotSizes
import dev.mullion.windows.spec.{CountWindow, GlobalTrigger, GlobalWindow, OrderedWindow, TimeMath}

/** Panes whose rows are processed one by one, in order of arrival. The rows of a key are consecutive; meanwhile the key
  * is in memory: its panes as `PanesOfKey`, and their contents in slots, see [[ArrivalKey]]. [[ArrivalFamilies]] lists
  * the records of both.
  *
  * A batch only touches the slots of its rows, and those that close.
  *
  * @param partition
  *   none on a batch DataFrame, where all rows of a key are present
  */
private[operator] final class ArrivalPanes(
    program: PaneProgram,
    rows: RowProgram,
    clock: BatchClock,
    partition: Option[StatePartition],
    counts: PaneCounts
) extends PaneEngine {
  import KeyedPanes.timersFamily

  private val functions = rows.functions(program.functions)
  private val accumulators = new Accumulators(functions, Nil, program.partial, program.layout.buffers)
  private val output = PaneOutput.of(program, program.keys, Nil, functions)
  private val panesOf = new PanesOfKeys(program, rows, clock)
  private val task = new ArrivalTask(program, rows, functions, accumulators, panesOf.counts, partition)

  private val numbered = rows.input :+ rows.number
  private lazy val update = new RowUpdate(functions, rows.filters, numbered)
  private val late = rowsOut(Firing.Late)
  private lazy val ahead = rowsOut(Firing.Ahead)

  private def rowsOut(firing: UTF8String) = program.lateRow.map { lateRow =>
    val entireRow = Alias(CreateNamedStruct(rows.lateColumns.flatMap(c => Seq(Literal(c.name), c))), lateRow.name)()
    new LateOutput(rows.input, program.keys, program.results, entireRow, program.pane.dataType, firing)
  }

  private val timeAt = rows.input.indexWhere(_.exprId == rows.time.exprId)
  private val gapAt = rows.gap.map(g => rows.input.indexWhere(_.exprId == g.exprId))
  private val trigger = rows.trigger.map(t => BindReferences.bindReference[Expression](t, rows.input))
  private val closesWhen = rows.closesWhen.map(new PaneCondition(_, program.keys, functions, program.functionResults))
  private lazy val mark = UnsafeProjection.create(rows.trigger.toSeq, rows.input)
  private val onTime = !program.rules.isInstanceOf[NumberedRules]
  private val tracksEnds = onTime && counts.tracksEnds
  private val running = rows.byRow.running
  private val inParts = rows.byRow.collect.filter(_.inParts)
  private val early = program.rules.early
  private val firesOpen = program.rules.firesOpen
  private val accumulate = program.rules.refinements.accumulate
  private val closesByBatch = onTime && rows.byRow.delayByKey.isEmpty
  private val closesByWall = rows.byRow.closesByWall
  private val hasTimers = closesByBatch || closesByWall

  private val keyTypes = program.keys.map(_.dataType)
  private val timer = new TimedKey(keyTypes, RecordOrder.ByLast)
  private lazy val timerToKey = timer.toKey
  private val record = new KeyRecord.Writer
  private val dueAt = timersFamily(program).times.head
  private val keys = partition.map(_.family(ArrivalFamilies.keys(program)))
  private val timers = partition.filter(_ => hasTimers).map(_.family(timersFamily(program)))
  private val queue = for { of <- partition if closesByBatch; interval <- early } yield {
    new EarlyKeys[ArrivalKey](interval, EarlyKeys.of(program, of), keyTypes, clock, counts) {
      override protected def load(key: UnsafeRow): ArrivalKey = ArrivalPanes.this.load(key)
      override protected def fire(active: ArrivalKey): Iterator[InternalRow] = firedEarly(active, interval)
      override protected def store(active: ArrivalKey): Unit = ArrivalPanes.this.store(active)
    }
  }

  private val forgetting =
    for (after <- rows.byRow.forgetAfter; of <- partition)
      yield (after, of.family(ArrivalFamilies.forget(program)))

  private val arriving = new Arriving()
  private val number = new GenericInternalRow(1)
  private val numberedRow = new JoinedRow()

  private val runs = new KeyRuns[ArrivalKey](program.keys, rows.input)(load)

  override def process(input: Iterator[InternalRow]): Iterator[InternalRow] =
    input.flatMap(row => enter(row)) ++ leave(runs.remaining()) ++ closing() ++ forgotten() ++
      queue.fold(Iterator.empty[InternalRow])(_.firing())

  override def openPanes(): Iterator[OpenPane] = ofEachKey { active =>
    active.panes.open.map { pane =>
      val (rows, toCome) =
        if (onTime) (None, None) else (Some(active.panes.number - pane.start), rowsToCome(active, pane))
      val fired = fire(active, pane, Firing.Close)
      val end = Option.when(onTime)(pane.end)
      OpenPane(fired, active.panes.firedAt(pane), active.panes.ownClock, rows, toCome, end)
    }
  }

  override def remaining(): Iterator[InternalRow] =
    ofEachKey(active => fired(active, active.panes.openAtEnd, Firing.Close)(_ => ()))

  private def ofEachKey[T](of: ArrivalKey => Iterator[T]): Iterator[T] = keys.fold(Iterator.empty[T]) { family =>
    new Iterators.OfRecords(family.all())(record => of(read(record.key.copy(), record.value, None)))(())
  }

  private def rowsToCome(active: ArrivalKey, pane: ArrivalPane): Option[Long] = program.rules.window match {
    case _: CountWindow                          => Some(pane.end - active.panes.number)
    case GlobalWindow(GlobalTrigger.Every(n), _) => Some(pane.start + n - active.panes.number)
    case _                                       => None
  }

  private def enter(row: InternalRow): Iterator[InternalRow] = {
    val complete = runs.complete(row)
    if (complete.isEmpty) take(runs.current(), row) else leave(complete) ++ take(runs.current(), row)
  }

  private def take(active: ArrivalKey, row: InternalRow): Iterator[InternalRow] =
    if (onTime && row.isNullAt(timeAt)) {
      counts.rowsWithoutTime += 1
      sentOut(late, row)
    } else if (onTime && row.getLong(timeAt) > clock.ahead) {
      counts.rowsAhead += 1
      sentOut(ahead, row)
    } else {
      if (onTime) {
        arriving.time = row.getLong(timeAt)
        gapAt.foreach(at => arriving.gap = if (row.isNullAt(at)) 0L else row.getLong(at))
      }
      program.rules.window match {
        case GlobalWindow(GlobalTrigger.When, _) | _: OrderedWindow =>
          arriving.closes = trigger.exists(_.eval(row) match { case holds: Boolean => holds; case _ => false })
        case GlobalWindow(GlobalTrigger.Changes, _) => arriving.mark = mark(row).copy().getBytes
        case _                                      =>
      }
      val before = active.panes.closesBefore(arriving)
      if (before.isEmpty) place(active, row) else closed(active, before) ++ place(active, row)
    }

  private def place(active: ArrivalKey, row: InternalRow): Iterator[InternalRow] = {
    number.update(0, active.panes.number)
    active.panes.take(arriving) match {
      case Fate.Late =>
        counts.countLate(1, program.rules.late, lateness(active))
        program.rules.late match {
          case LatePolicy.Drop                                            => Iterator.empty
          case LatePolicy.Emit                                            => sentOut(late, row)
          case LatePolicy.Reopen | LatePolicy.ReopenEach if closesByBatch =>
            val stored = numberedRow(row, number).copy()
            active.panes.reopened(arriving).foreach(active.reopened.add(_, stored))
            Iterator.empty
          case LatePolicy.Reopen | LatePolicy.ReopenEach =>
            active.panes.reopened(arriving).map(reopen(active, _, Seq(numberedRow(row, number))))
        }
      case Fate.InNoWindow =>
        counts.rowsInNoWindow += 1
        closed(active, active.panes.closes())
      case Fate.InPanes =>
        val entireRow = numberedRow(row, number)
        val slots = active.panes.slots
        try add(active, slots, entireRow)
        catch { case e: MullionException => throw FailedAggregate.in(active.nameOf(active.panes.touched.next()), e) }
        if (closesWhen.exists(when => when(active.key, active.workOf(slots(0), when.isOverDistinct))))
          active.panes.end()
        if (running)
          active.panes.touched.map { pane =>
            counts.firedRunning += 1
            val fired = fire(active, pane, Firing.Running)
            active.panes.fire(pane)
            fired
          } ++ closed(active, active.panes.closes())
        else full(active) ++ closed(active, active.panes.closes())
    }
  }

  /** The lateness of the current row, by the clock that made it late. */
  private def lateness(active: ArrivalKey): Long = {
    val due = if (rows.byRow.lateBehindClock) arriving.time else program.rules.lastDue(arriving.time, arriving.gap)
    TimeMath.minus(active.panes.ownClock.getOrElse(clock.before), due)
  }

  /** Adds the current row to its slots. */
  private def add(active: ArrivalKey, slots: Array[Long], row: InternalRow): Unit = {
    join(active, slots)
    var i = 0
    while (i < slots.length) {
      update(active.slot(slots(i)).toChange, row)
      checkSize(active, slots(i))
      i += 1
    }
  }

  /** The firings for the current row; on a batch DataFrame panes close without earlier firings. */
  private def full(active: ArrivalKey): Iterator[InternalRow] =
    if (partition.isEmpty) Iterator.empty else firedOpen(active, active.panes.full)

  /** The early firings of panes. */
  private def firedOpen(active: ArrivalKey, panes: Iterator[ArrivalPane]): Iterator[InternalRow] =
    fired(active, panes, Firing.Early) { pane =>
      counts.firedEarly += 1
      active.panes.fire(pane)
      if (!accumulate) active.panes.slotsOf(pane).foreach(active.remove)
    }

  /** The firings of panes, with a step after the rows of each. */
  private def fired(active: ArrivalKey, panes: Iterator[ArrivalPane], firing: UTF8String)(
      after: ArrivalPane => Unit
  ): Iterator[InternalRow] = inParts match {
    case Some(collected) =>
      panes.flatMap { pane =>
        active.partsOf(pane, collected).map(fire(active, pane, firing, _)).andThen(after(pane))
      }
    case None =>
      panes.map { pane =>
        val row = fire(active, pane, firing)
        after(pane)
        row
      }
  }

  /** On a batch DataFrame no row is late. */
  private def sentOut(output: Option[LateOutput], row: InternalRow): Iterator[InternalRow] =
    output.filter(_ => partition.isDefined).fold(Iterator.empty[InternalRow])(out => Iterator.single(out(row)))

  /** A pane of late rows, due at once: of one row by its key's own clock, of a batch's rows by the stream's. */
  private def reopen(active: ArrivalKey, pane: ArrivalPane, late: Seq[InternalRow]): InternalRow = {
    rows.byRow.collect.filter(late.length > _.maxRows).foreach(collected => throw active.tooMany(collected, pane))
    val work = accumulators.blank()
    late.foreach(update(work, _))
    counts.firedClose += 1
    val name = output.nameOfReopened(pane.start, pane.end, clock.number, active.reopenedBefore)
    active.reopenedBefore += 1
    output.fire(active.key, pane.start, pane.end, Firing.Close, 0, name, work)
  }

  /** Merges the slots of merged sessions. */
  private def join(active: ArrivalKey, slots: Array[Long]): Unit = active.panes.merged.foreach { from =>
    active.rest(from).foreach(accumulators.merge(active.slot(slots(0)).toChange, _))
    active.remove(from)
  }

  private def closed(active: ArrivalKey, panes: Iterator[ArrivalPane]): Iterator[InternalRow] =
    if (panes.isEmpty) Iterator.empty
    else
      fired(active, panes, Firing.Close) { pane =>
        if (active.panes.hadRows(pane)) {
          counts.panesClosed += 1
          active.closed += 1
        }
        active.panes.forget(pane).foreach(active.remove)
        counts.firedClose += 1
      }

  private def fire(active: ArrivalKey, pane: ArrivalPane, firing: UTF8String): InternalRow =
    try fire(active, pane, firing, active.holds(pane))
    catch { case e: MullionException => throw FailedAggregate.in(active.nameOf(pane), e) }

  private def fire(active: ArrivalKey, pane: ArrivalPane, firing: UTF8String, work: InternalRow): InternalRow = {
    val index = if (running || firesOpen) active.panes.fired(pane) else 0
    val name =
      if (!output.ids) PaneName.none
      else {
        val (id, merged) = active.panes.nameOf(pane)
        PaneName(id, merged)
      }
    output.fire(active.key, pane.start, pane.end, firing, index, name, work)
  }

  /** The output of keys that have all their rows, which are then written. */
  private def leave(complete: Iterator[ArrivalKey]): Iterator[InternalRow] = complete.flatMap { active =>
    active.lifetime.foreach(_.lastRows = clock.wall)
    val reopened = active.reopened.panes.iterator.map { case (pane, late) => reopen(active, pane, late) }
    (byOwnClock(active) ++ reopened ++ atEndOfBatch(active)).andThen {
      store(active)
      active.free()
    }
  }

  /** On a batch DataFrame these are all rows of a key, and time passes after them. */
  private def atEndOfBatch(active: ArrivalKey): Iterator[InternalRow] =
    if (partition.isEmpty && (program.closesAtEnd || onTime || closesByWall))
      fired(active, active.panes.openAtEnd, Firing.Close)(_ => ())
    else Iterator.empty

  /** The early firings of a key whose own clock only moves with its rows, so that it needs no timer. */
  private def byOwnClock(active: ArrivalKey): Iterator[InternalRow] =
    early.filterNot(_ => closesByBatch || clock.inputEnds).fold(Iterator.empty[InternalRow])(firedEarly(active, _))

  private def firedEarly(active: ArrivalKey, firing: EarlyFiring): Iterator[InternalRow] =
    firedOpen(active, active.panes.early(firing).iterator)

  private def closing(): Iterator[InternalRow] = timers.fold(Iterator.empty[InternalRow]) { family =>
    val due = if (closesByWall) clock.byWall else clock
    val closes = new DueKeys[ArrivalKey](family, dueAt, due, counts, keyTypes)(timerToKey(_)) {
      override protected def load(key: UnsafeRow): ArrivalKey = ArrivalPanes.this.load(key)
      override protected def fire(active: ArrivalKey): Iterator[InternalRow] =
        closed(active, active.panes.advance(active.panes.ownClock.getOrElse(due.now)))
      override protected def store(active: ArrivalKey): Long = {
        ArrivalPanes.this.store(active, hasTimer = false)
        if (active.panes.isEmpty) PaneCounts.Never else active.panes.nextClose
      }
    }
    if (!closesByWall) closes.firing()
    else
      closes.firing().andThen {
        counts.nextByWall = Math.min(counts.nextByWall, counts.nextClose)
        counts.nextClose = PaneCounts.Never
      }
  }

  /** Closes the panes of keys without rows for so long, and removes the keys. */
  private def forgotten(): Iterator[InternalRow] = forgetting.fold(Iterator.empty[InternalRow]) {
    case (after, family) =>
      val closesNext = counts.nextClose
      val due = new DueKeys[ArrivalKey](family, dueAt, clock.byWall, counts, keyTypes)(timerToKey(_)) {
        override protected def load(key: UnsafeRow): ArrivalKey = ArrivalPanes.this.load(key)
        override protected def fire(active: ArrivalKey): Iterator[InternalRow] = {
          val lifetime = active.lifetime.get
          lifetime.timer = ActiveKey.NoTimer
          active.isForgotten = TimeMath.plus(lifetime.lastRows, after) <= clock.wall
          if (active.isForgotten) closed(active, active.panes.open.toVector.iterator) else Iterator.empty
        }
        override protected def store(active: ArrivalKey): Long = {
          ArrivalPanes.this.store(active)
          if (active.isForgotten) PaneCounts.Never else active.lifetime.get.timer
        }
      }
      due.firing().andThen {
        counts.nextByWall = Math.min(counts.nextByWall, counts.nextClose)
        counts.nextClose = closesNext
      }
  }

  private def load(key: UnsafeRow): ArrivalKey = {
    val stored = keys.fold(BorrowedRow(None.orNull))(_.get(key))
    if (stored.isAbsent)
      new ArrivalKey(
        task,
        key,
        panesOf.empty,
        isNew = true,
        None,
        SlotSizes.empty,
        forgetting.map(_ => KeyLifetime.begin(clock.wall))
      )
    else {
      val due = KeyRecord.due(stored)
      val active = read(key, stored, Option.when(due != PaneCounts.Never)(due))
      if (tracksEnds) active.panes.open.foreach(pane => counts.closesAt(pane.end))
      active
    }
  }

  private def read(key: UnsafeRow, value: BorrowedRow, due: Option[Long]): ArrivalKey = {
    val sizes = KeyRecord.beside(value).fold(SlotSizes.empty)(SlotSizes.fromBytes)
    val bytes = KeyRecord.panes(value)
    val (panes, lifetime) = rows.byRow.forgetAfter.fold((bytes, Option.empty[KeyLifetime])) { _ =>
      val (panes, times) = KeyLifetime.read(bytes)
      (panes, Some(times))
    }
    new ArrivalKey(task, key, panesOf.fromBytes(panes), isNew = false, due, sizes, lifetime)
  }

  private def store(active: ArrivalKey, hasTimer: Boolean = true): Unit = keys.foreach { family =>
    counts.panesOpened += active.openAfter + active.closed - active.openAtFirst
    if (tracksEnds && !active.isForgotten) active.panes.open.foreach(pane => counts.opensAt(pane.end))
    active.write()
    // A pane that ends at the end of time never closes, and has no timer.
    val next = Option
      .when(hasTimers && active.isKept)(active.panes.nextClose)
      .filter(_ != PaneCounts.Never)
    val timed = if (hasTimer) active.due else None
    timers.filter(_ => next != timed).foreach { all =>
      timed.foreach(old => all.remove(timer(old, active.key)))
      next.foreach(due => all.insert(timer(due, active.key), KeyOnly.value))
    }
    for ((after, family) <- forgetting; lifetime <- active.lifetime) renew(active, lifetime, after, family)
    if (active.isKept) {
      val sizes = if (rows.keepsRows) active.sizes.toBytes else None.orNull
      val panes = active.lifetime.fold(active.panes.toBytes)(_.after(active.panes.toBytes))
      val value = record(next.getOrElse(PaneCounts.Never), panes, sizes)
      if (active.isNew) family.insert(active.key, value) else family.update(active.key, value)
    } else if (!active.isNew) family.remove(active.key)
    queue.foreach(_.move(active))
  }

  /** A kept key has one timer that forgets it, and another one none. */
  private def renew(active: ArrivalKey, lifetime: KeyLifetime, after: Long, family: Family): Unit = {
    val isTimed = lifetime.timer != ActiveKey.NoTimer
    if (!active.isKept && isTimed) family.remove(timer(lifetime.timer, active.key))
    else if (active.isKept && !isTimed) {
      lifetime.timer = TimeMath.plus(lifetime.lastRows, after)
      family.insert(timer(lifetime.timer, active.key), KeyOnly.value)
      counts.nextByWall = Math.min(counts.nextByWall, lifetime.timer)
    }
  }

  /** A pane of several slots may have too many rows although none of the slots has: that is found when it closes. */
  private def checkSize(active: ArrivalKey, slot: Long): Unit = rows.byRow.collect.foreach { collected =>
    if (active.sizes.add(slot) > collected.maxRows) throw active.tooMany(collected, active.panes.touched.next())
    if (collected.inParts) active.spill(slot)
  }
}
