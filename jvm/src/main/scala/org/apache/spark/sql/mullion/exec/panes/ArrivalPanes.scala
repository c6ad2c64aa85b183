package org.apache.spark.sql.mullion.exec.panes

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.{CollectRows, CollectedRows, RowUpdate}
import org.apache.spark.sql.mullion.state.records.{FamilyScan, FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types._

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.{
  AlignedPanesOfKey,
  ArrivalPane,
  Arriving,
  CountPanesOfKey,
  Fate,
  GlobalPaneOfKey,
  KeyClock,
  PanesOfKey,
  ReopenedPanes,
  SessionIds,
  SessionsOfKey
}
import dev.mullion.windows.rules.{
  AlignedRules,
  Collected,
  EarlyFiring,
  LatePolicy,
  NumberedRules,
  PaneRules,
  SessionRules
}
import dev.mullion.windows.sets.SlotSizes
import dev.mullion.windows.spec.{CountWindow, GlobalTrigger, GlobalWindow, SliceGrid}

/** Panes whose rows are worked on one by one, in order of arrival. The rows of a key come together; meanwhile what is
  * known of the key stands in memory, as its [[PanesOfKey]], and what its panes hold, in slots.
  *
  * {{{
  *   slots   (key, slot)          -> accumulator                   aggregates: one record a slot
  *   pieces  (key, slot, number)  -> rows of one batch             rows: one record a slot and batch, by its first row
  *   keys    (key)                -> when its next pane closes, its panes [, how many rows its slots have]
  *   timers  (due, key)           -> the keys that have a pane to close by the stream's clock
  * }}}
  *
  * A batch touches only the slots that its rows touch, or that close.
  *
  * @param partition
  *   none on a batch DataFrame, where a key's rows are all there
  */
private[exec] final class ArrivalPanes(
    program: WindowProgram,
    rows: RowProgram,
    clock: BatchClock,
    partition: Option[StatePartition],
    counts: PaneCounts
) extends PaneEngine {
  import ArrivalPanes._
  import KeyedPanes.timersFamily

  private val functions = rows.functions(program.functions)
  private val accumulators = new Accumulators(functions, Nil, program.partial, program.grouping.length)
  private val output = program.paneOutput(program.keys, Nil, functions)
  private val panesOf = new PanesOfKeys(program, rows, clock)

  private val numbered = rows.input :+ rows.number
  private lazy val update = new RowUpdate(functions, rows.filters, numbered)
  private val late = program.lateRow.map { lateRow =>
    val whole = CreateNamedStruct(rows.lateColumns.flatMap(c => Seq(Literal(c.name), c)))
    new LateOutput(rows.input, program.keys, program.results, Alias(whole, lateRow.name)(), program.pane.dataType)
  }

  private val timeAt = rows.input.indexWhere(_.exprId == rows.time.exprId)
  private val gapAt = rows.gap.map(g => rows.input.indexWhere(_.exprId == g.exprId))
  private val trigger = rows.trigger.map(t => BindReferences.bindReference[Expression](t, rows.input))
  private lazy val mark = UnsafeProjection.create(rows.trigger.toSeq, rows.input)
  private val onTime = !program.rules.isInstanceOf[NumberedRules]
  private val running = rows.byRow.running
  private val early = program.rules.early
  // Of a batch DataFrame panes close, and do not fire before.
  private val count = program.rules.refinements.count.filter(_ => partition.isDefined)
  private val firesOpen = program.rules.firesOpen
  private val accumulate = program.rules.refinements.accumulate
  private val closesByBatch = onTime && rows.byRow.delayByKey.isEmpty
  private val keysFollowWall = rows.byRow.keysFollowWall
  private val hasTimers = closesByBatch || keysFollowWall

  private val keyTypes = program.keys.map(_.dataType)
  private val timer = new KeyedPanes.TimedKey(keyTypes, program.timeOrder)
  private lazy val timerToKey = timer.toKey
  private lazy val keyValue = UnsafeProjection.create(keysFamily(program).value)
  private val dueAt = timersFamily(program).times.head
  private val keys = partition.map(_.family(keysFamily(program)))
  private val timers = partition.filter(_ => hasTimers).map(_.family(timersFamily(program)))
  private val queue = for { of <- partition if closesByBatch; interval <- early } yield {
    new EarlyKeys[ArrivalKey](interval, EarlyKeys.of(program, of), keyTypes, clock, counts) {
      override protected def load(key: UnsafeRow): ArrivalKey = ArrivalPanes.this.load(key)
      override protected def fire(active: ArrivalKey): Iterator[InternalRow] = firedEarly(active, interval)
      override protected def store(active: ArrivalKey): Unit = ArrivalPanes.this.store(active)
    }
  }

  private val arriving = new Arriving()
  private val number = new GenericInternalRow(1)
  private val numberedRow = new JoinedRow()

  private val runs = new KeyRuns[ArrivalKey](program.keys, rows.input)(load)

  override def process(input: Iterator[InternalRow]): Iterator[InternalRow] =
    input.flatMap(row => enter(row)) ++ leave(runs.left()) ++ closing() ++
      queue.fold(Iterator.empty[InternalRow])(_.firing())

  override def openPanes(): Iterator[OpenPane] = look(_.open)

  override def remaining(): Iterator[InternalRow] = look(_.openAtEnd).map(_.row)

  private def look(panes: PanesOfKey => Iterator[ArrivalPane]): Iterator[OpenPane] =
    keys.fold(Iterator.empty[OpenPane]) { family =>
      family.all().flatMap { record =>
        val active = read(record.key.copy(), record.value, None)
        panes(active.panes).map { pane =>
          val (rows, toCome) =
            if (onTime) (None, None) else (Some(active.panes.number - pane.start), rowsToCome(active, pane))
          val fired = fire(active, pane, Firing.Close)
          OpenPane(fired, active.panes.firedAt(pane), active.panes.ownClock, rows, rowsToCome = toCome)
        }
      }
    }

  private def rowsToCome(active: ArrivalKey, pane: ArrivalPane): Option[Long] = program.rules.window match {
    case _: CountWindow                       => Some(pane.end - active.panes.number)
    case GlobalWindow(GlobalTrigger.Every(n)) => Some(pane.start + n - active.panes.number)
    case _                                    => None
  }

  private def enter(row: InternalRow): Iterator[InternalRow] = {
    var left = Iterator.empty[InternalRow]
    val active = runs(row)(complete => left = leave(complete))
    if (left.isEmpty) take(active, row) else left ++ take(active, row)
  }

  private def take(active: ArrivalKey, row: InternalRow): Iterator[InternalRow] =
    if (onTime && row.isNullAt(timeAt)) {
      counts.rowsWithoutTime += 1
      sentOut(row)
    } else {
      if (onTime) {
        arriving.time = row.getLong(timeAt)
        gapAt.foreach(at => arriving.gap = if (row.isNullAt(at)) 0L else row.getLong(at))
      }
      program.rules.window match {
        case GlobalWindow(GlobalTrigger.When) =>
          arriving.closes = trigger.exists(_.eval(row) match { case holds: Boolean => holds; case _ => false })
        case GlobalWindow(GlobalTrigger.Changes) => arriving.mark = mark(row).copy().getBytes
        case _                                   =>
      }
      val before = active.panes.closesBefore(arriving)
      if (before.isEmpty) place(active, row) else closed(active, before) ++ place(active, row)
    }

  private def place(active: ArrivalKey, row: InternalRow): Iterator[InternalRow] = {
    number.update(0, active.panes.number)
    active.panes.take(arriving) match {
      case Fate.Late =>
        counts.countLate(1, program.rules.late)
        program.rules.late match {
          case LatePolicy.Drop                                            => Iterator.empty
          case LatePolicy.Emit                                            => sentOut(row)
          case LatePolicy.Reopen | LatePolicy.ReopenEach if closesByBatch =>
            val kept = numberedRow(row, number).copy()
            active.panes.reopened(arriving).foreach(active.reopened.add(_, kept))
            Iterator.empty
          case LatePolicy.Reopen | LatePolicy.ReopenEach =>
            active.panes.reopened(arriving).map(reopen(active, _, Seq(numberedRow(row, number))))
        }
      case Fate.InNoWindow =>
        counts.rowsInNoWindow += 1
        closed(active, active.panes.closes())
      case Fate.InPanes =>
        val whole = numberedRow(row, number)
        val slots = active.panes.slots
        join(active, slots)
        var i = 0
        while (i < slots.length) {
          update(active.slot(slots(i)).toChange, whole)
          checkSize(active, slots(i))
          i += 1
        }
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

  /** The panes that the row just taken has brought so many rows as make them fire. */
  private def full(active: ArrivalKey): Iterator[InternalRow] = count.fold(Iterator.empty[InternalRow]) { n =>
    active.panes.touched.filter(active.panes.rowsSince(_) >= n).map(firedOpen(active, _))
  }

  private def firedOpen(active: ArrivalKey, pane: ArrivalPane): InternalRow = {
    counts.firedEarly += 1
    val fired = fire(active, pane, Firing.Early)
    active.panes.fire(pane)
    if (!accumulate) active.panes.slotsOf(pane).foreach(active.remove)
    fired
  }

  private def sentOut(row: InternalRow): Iterator[InternalRow] =
    late.fold(Iterator.empty[InternalRow])(out => Iterator.single(out(row)))

  /** A pane of late rows, due at once: by its key's own clock of one row, by the stream's of those of a batch. */
  private def reopen(active: ArrivalKey, pane: ArrivalPane, late: Seq[InternalRow]): InternalRow = {
    rows.byRow.collect.filter(late.length > _.maxRows).foreach(collected => throw active.tooMany(collected, pane))
    val work = accumulators.blank()
    late.foreach(update(work, _))
    counts.firedClose += 1
    val name = output.nameOfReopened(pane.start, pane.end, clock.number, active.reopenedBefore)
    active.reopenedBefore += 1
    output.fire(active.key, pane.start, pane.end, Firing.Close, 0, name, work)
  }

  /** Makes one slot of those whose sessions became one. */
  private def join(active: ArrivalKey, slots: Array[Long]): Unit = active.panes.merged.foreach { from =>
    active.rest(from).foreach(accumulators.merge(active.slot(slots(0)).toChange, _))
    active.remove(from)
  }

  private def closed(active: ArrivalKey, panes: Iterator[ArrivalPane]): Iterator[InternalRow] =
    if (panes.isEmpty) Iterator.empty
    else
      panes.map { pane =>
        val row = fire(active, pane, Firing.Close)
        if (active.panes.hadRows(pane)) {
          counts.panesClosed += 1
          active.closed += 1
        }
        active.panes.forget(pane).foreach(active.remove)
        counts.firedClose += 1
        row
      }

  private def fire(
      active: ArrivalKey,
      pane: ArrivalPane,
      firing: org.apache.spark.unsafe.types.UTF8String
  ): InternalRow = {
    val index = if (running || firesOpen) active.panes.fired(pane) else 0
    val name =
      if (!output.ids) PaneName.none
      else {
        val (id, merged) = active.panes.nameOf(pane)
        PaneName(id, merged)
      }
    output.fire(active.key, pane.start, pane.end, firing, index, name, active.holds(pane))
  }

  /** What comes out of keys that have all their rows; they are written back then. */
  private def leave(complete: Iterator[ArrivalKey]): Iterator[InternalRow] = complete.flatMap { active =>
    byOwnClock(active) ++ active.reopened.panes.iterator.map { case (pane, late) => reopen(active, pane, late) } ++
      atEndOfBatch(active) ++ {
        store(active)
        Iterator.empty
      }
  }

  /** Of a batch DataFrame this is all of a key. */
  private def atEndOfBatch(active: ArrivalKey): Iterator[InternalRow] =
    if (partition.isEmpty && program.closesAtEnd) active.panes.openAtEnd.map(fire(active, _, Firing.Close))
    else Iterator.empty

  /** What fires early of a key whose own clock moves with its rows alone, so that none waits for it. */
  private def byOwnClock(active: ArrivalKey): Iterator[InternalRow] =
    early.filterNot(_ => closesByBatch || clock.inputEnds).fold(Iterator.empty[InternalRow])(firedEarly(active, _))

  private def firedEarly(active: ArrivalKey, firing: EarlyFiring): Iterator[InternalRow] =
    active.panes.early(firing).iterator.map(firedOpen(active, _))

  private def closing(): Iterator[InternalRow] = timers.fold(Iterator.empty[InternalRow]) { family =>
    val due = if (keysFollowWall) clock.byWall else clock
    new DueKeys[ArrivalKey](family, dueAt, due, counts, keyTypes)(timerToKey(_)) {
      override protected def load(key: UnsafeRow): ArrivalKey = ArrivalPanes.this.load(key)
      override protected def fire(active: ArrivalKey): Iterator[InternalRow] =
        closed(active, active.panes.advance(active.panes.ownClock.getOrElse(clock.now)))
      override protected def store(active: ArrivalKey): Long = {
        ArrivalPanes.this.store(active, hasTimer = false)
        if (active.panes.isEmpty) PaneCounts.Never else active.panes.nextClose
      }
    } ++ {
      if (keysFollowWall) {
        counts.nextByWall = Math.min(counts.nextByWall, counts.nextClose)
        counts.nextClose = PaneCounts.Never
      }
      Iterator.empty
    }
  }

  private def load(key: UnsafeRow): ArrivalKey = {
    val stored = keys.map(_.get(key)).filter(_ ne null)
    stored.fold(new ArrivalKey(key, panesOf.empty, isNew = true, None, SlotSizes.empty)) { value =>
      val due = value.getLong(0)
      read(key, value, Option.when(due != PaneCounts.Never)(due))
    }
  }

  private def read(key: UnsafeRow, value: UnsafeRow, due: Option[Long]): ArrivalKey = {
    val sizes = if (value.isNullAt(2)) SlotSizes.empty else SlotSizes.fromBytes(value.getBinary(2))
    new ArrivalKey(key, panesOf.fromBytes(value.getBinary(1)), isNew = false, due, sizes)
  }

  private def store(active: ArrivalKey, hasTimer: Boolean = true): Unit = keys.foreach { family =>
    counts.panesOpened += active.panes.countOpen + active.closed - active.openAtFirst
    active.write()
    // What ends at the end of time never closes, and has no timer.
    val next = Option
      .when(hasTimers && !active.panes.isEmpty)(active.panes.nextClose)
      .filter(_ != PaneCounts.Never)
    val timed = if (hasTimer) active.due else None
    timers.filter(_ => next != timed).foreach { all =>
      timed.foreach(old => all.remove(timer(old, active.key)))
      next.foreach(due => all.insert(timer(due, active.key), KeyOnly.value))
    }
    if (!active.panes.isEmpty) {
      val sizes = if (rows.keepsRows) active.sizes.toBytes else None.orNull
      val value = keyValue(InternalRow(next.getOrElse(PaneCounts.Never), active.panes.toBytes, sizes))
      if (active.isNew) family.insert(active.key, value) else family.update(active.key, value)
    } else if (!active.isNew) family.remove(active.key)
    queue.foreach(_.move(active))
  }

  /** A pane of several slots may have too many rows though none of them has: that is found when it closes. */
  private def checkSize(active: ArrivalKey, slot: Long): Unit = rows.byRow.collect.foreach { collected =>
    if (active.sizes.add(slot) > collected.maxRows) throw active.tooMany(collected, active.panes.touched.next())
  }

  /** A slot in memory: at work, or at rest. */
  private final class Slot(private var work: InternalRow, private var rest: UnsafeRow, val isStored: Boolean) {

    /** Whether it is not as it is in state. */
    var changed = false

    def toChange: InternalRow = {
      changed = true
      atWork
    }

    def atWork: InternalRow = {
      if (work eq null) { work = accumulators.load(rest); rest = null }
      work
    }

    def atRest: UnsafeRow = {
      if (rest eq null) { rest = accumulators.rest(work).copy(); work = null }
      rest
    }

    /** Its rows of this batch. */
    def collected: CollectedRows =
      atWork.get(0, ArrivalPanes.objects).asInstanceOf[CollectedRows]
  }

  /** A key that is worked on.
    *
    * @param isNew
    *   whether there is nothing of it in state
    * @param due
    *   when its timer in state is due, if it has one
    */
  private final class ArrivalKey(
      val key: UnsafeRow,
      val panes: PanesOfKey,
      val isNew: Boolean,
      val due: Option[Long],
      val sizes: SlotSizes
  ) extends WaitingKey {
    override val queued: Option[(Long, Long)] = if (isNew) None else early.flatMap(firstReadings)

    override def firstReadings(firing: EarlyFiring): Option[(Long, Long)] = panes.firstReadings(firing)

    private val slots = mutable.LongMap.empty[Slot]
    private lazy val fold = accumulators.newFold
    private var folded = Long.MinValue

    /** What late rows of this batch open by the stream's clock. */
    lazy val reopened: ReopenedPanes[InternalRow] = new ReopenedPanes(program.isSession)

    val openAtFirst: Long = if (isNew) 0L else panes.countOpen

    /** How many panes late rows have opened in this batch. */
    var reopenedBefore: Long = 0L

    /** How many panes have closed. */
    var closed: Long = 0L

    /** A slot for a row. */
    def slot(id: Long): Slot = slots.getOrElseUpdate(
      id, {
        // Rows that are kept are written beside those of other batches, and not added to them.
        val stored = if (rows.keepsRows) None else inState(id)
        stored.fold(new Slot(accumulators.blank(), null, isStored = false))(new Slot(null, _, isStored = true))
      }
    )

    private def inState(id: Long): Option[UnsafeRow] =
      if (isNew || panes.isNew(id)) None
      else content.map(_.get(slotKey(id, key))).filter(_ ne null).map(_.copy())

    /** What a slot holds, at rest. */
    def rest(id: Long): Option[UnsafeRow] = slots
      .get(id)
      .orElse {
        // Windows that overlap ask for it again.
        val read = inState(id).map(new Slot(null, _, isStored = true))
        read.foreach(slots.update(id, _))
        read
      }
      .map(_.atRest)

    /** What a pane holds, at work. */
    def holds(pane: ArrivalPane): InternalRow = {
      val of = panes.slotsOf(pane)
      if (rows.keepsRows) rowsOf(pane, of)
      else if (of.length == 1) slots.get(of(0)).map(_.atWork).getOrElse(accumulators.load(inState(of(0)).get))
      else panesOf.counts.fold(sumOf(of))(grid => folding(grid, pane))
    }

    private def sumOf(of: Array[Long]): InternalRow = {
      val work = accumulators.blank()
      of.foreach(rest(_).foreach(accumulators.merge(work, _)))
      work
    }

    /** Windows of row numbers close in order, and their slices are all there when they do. */
    private def folding(grid: SliceGrid, pane: ArrivalPane): InternalRow =
      if (panes.number < pane.end) sumOf(panes.slotsOf(pane))
      else {
        fold.evictBefore(grid.firstSlice(pane.id))
        var slice = Math.max(folded, grid.firstSlice(pane.id))
        while (slice <= grid.lastSlice(pane.id)) {
          rest(slice).foreach(r => fold.push(slice, r.copy()))
          slice += 1
        }
        folded = slice
        accumulators.load(fold.sum.get.copy())
      }

    private def rowsOf(pane: ArrivalPane, of: Array[Long]): InternalRow = {
      val work = accumulators.blank()
      def add(rest: UnsafeRow): Unit = {
        accumulators.merge(work, rest)
        rows.byRow.collect.foreach { collected =>
          val all =
            work.get(0, ArrivalPanes.objects).asInstanceOf[CollectedRows]
          if (all.size > collected.maxRows) throw tooMany(collected, pane)
        }
      }
      of.foreach { id =>
        pieces(id).foreach(_.foreach(piece => add(piece.value)))
        slots.get(id).foreach(s => add(s.atRest))
      }
      work
    }

    private def pieces(id: Long): Option[FamilyScan] =
      if (isNew || panes.isNew(id)) None
      else content.map(_.range(pieceKey(id, 0L, key).copy(), pieceKey(id, Long.MaxValue, key)))

    def remove(id: Long): Unit = {
      val slot = slots.remove(id)
      if (rows.keepsRows) {
        sizes.remove(id)
        val found = pieces(id).fold(Vector.empty[UnsafeRow])(scan =>
          try scan.map(_.key.copy()).toVector
          finally scan.close()
        )
        content.foreach(family => found.foreach(family.remove))
      } else if (slot.fold(inState(id).isDefined)(_.isStored)) content.foreach(_.remove(slotKey(id, key)))
    }

    /** Writes what slots hold back to state. */
    def write(): Unit = content.foreach { family =>
      slots.iterator.filter(_._2.changed).foreach { case (id, slot) =>
        if (rows.byRow.collect.isEmpty && program.limit.isLess(slot.atRest.getSizeInBytes))
          throw tooLarge(id, slot.atRest)
        if (rows.keepsRows) family.insert(pieceKey(id, slot.collected.firstNumber, key), slot.atRest)
        else if (slot.isStored) family.update(slotKey(id, key), slot.atRest)
        else family.insert(slotKey(id, key), slot.atRest)
      }
    }

    private def tooLarge(slot: Long, rest: UnsafeRow) = {
      val pane = panes.open.find(panes.slotsOf(_).contains(slot))
      val name = pane.fold(s"A pane${names.of(key)}")(p => names(p.start, p.end, key))
      PaneSums.tooLarge(program, functions, rest, rest.getSizeInBytes.toLong, name)
    }

    def tooMany(collected: Collected, pane: ArrivalPane): dev.mullion.MullionException =
      CollectRows.tooMany(names(pane.start, pane.end, key), collected)
  }

  private lazy val names = new PaneNames(program)
  private val content = partition.map(_.family(contentFamily(program, rows)))
  private val slotKey = new KeyedPanes.TimedKey(keyTypes, RecordOrder.WithinKey)
  private lazy val pieceKey = new PieceKey(keyTypes)
}

private[exec] object ArrivalPanes {
  import KeyedPanes.{time, timersFamily}

  private val objects = ObjectType(classOf[AnyRef])

  def families(program: WindowProgram, rows: RowProgram): Seq[FamilySpec] =
    Seq(contentFamily(program, rows), keysFamily(program)) ++
      Option.when(hasTimers(program, rows))(timersFamily(program)) ++
      program.rules.early.filter(_ => rows.byRow.delayByKey.isEmpty).map(_ => EarlyKeys.family(program))

  private def hasTimers(program: WindowProgram, rows: RowProgram): Boolean =
    (rows.byRow.delayByKey.isEmpty || rows.byRow.keysFollowWall) && !program.rules.isInstanceOf[NumberedRules]

  private def contentFamily(program: WindowProgram, rows: RowProgram): FamilySpec =
    if (!rows.keepsRows) KeyedPanes.accumulatorsFamily(program, "slots", "slot", Nil)
    else
      FamilySpec(
        "pieces",
        StructType(program.keyFields ++ Seq(time("slot"), time("number"))),
        Accumulators.schema(program.functions, Nil),
        RecordOrder.WithinKey
      )

  private def keysFamily(program: WindowProgram): FamilySpec = FamilySpec(
    "keys",
    key = StructType(program.keyFields),
    value = new StructType().add(time("due")).add("panes", BinaryType, nullable = false).add("sizes", BinaryType),
    RecordOrder.Unordered
  )

  /** Keys with a slot and the number of a row. */
  final class PieceKey(keyTypes: Seq[DataType]) {
    private val numbers = new GenericInternalRow(2)
    private val both = new JoinedRow()
    private val projection = UnsafeProjection.create(
      keyTypes.zipWithIndex.map { case (t, i) => BoundReference(2 + i, t, nullable = true) } ++
        Seq(BoundReference(0, LongType, nullable = false), BoundReference(1, LongType, nullable = false))
    )

    def apply(slot: Long, number: Long, key: UnsafeRow): UnsafeRow = {
      numbers.update(0, slot)
      numbers.update(1, number)
      projection(both(numbers, key))
    }
  }

  /** Makes what is known of keys, by the kind of window. */
  final class PanesOfKeys(program: WindowProgram, rows: RowProgram, clock: BatchClock) {
    private val counted = rows.byRow.running || program.rules.firesOpen

    /** Whether panes have slots of their own: where each fires for itself, or takes away what it shows. */
    private val byPane = rows.byRow.running || !program.rules.refinements.accumulate

    /** The slices of windows of row numbers, where their panes share them. */
    val counts: Option[SliceGrid] = program.rules.window match {
      case count: CountWindow if !rows.byRow.running && count.every < count.size => Some(CountPanesOfKey.grid(count))
      case _                                                                     => None
    }

    private def refused(rules: PaneRules) =
      throw new IllegalStateException(s"rows of ${rules.describe} are not worked on one by one")

    private val grid = program.rules.window match {
      case count: CountWindow => Some(CountPanesOfKey.grid(count))
      case _                  => None
    }

    def empty: PanesOfKey = program.rules match {
      case NumberedRules(count: CountWindow, _, _)    => new CountPanesOfKey(count, grid.get, rows.byRow.running, 0L)
      case NumberedRules(GlobalWindow(trigger), _, _) => GlobalPaneOfKey.empty(trigger)
      case aligned: AlignedRules                      => AlignedPanesOfKey.empty(aligned, byPane, counted, keyClock)
      case sessions: SessionRules => SessionsOfKey.empty(sessions, !rows.keepsRows, counted, ids, keyClock)
      case other                  => refused(other)
    }

    def fromBytes(bytes: Array[Byte]): PanesOfKey = program.rules match {
      case NumberedRules(count: CountWindow, _, _) =>
        CountPanesOfKey.fromBytes(count, grid.get, rows.byRow.running, bytes)
      case NumberedRules(GlobalWindow(trigger), _, _) => GlobalPaneOfKey.fromBytes(trigger, bytes)
      case aligned: AlignedRules  => AlignedPanesOfKey.fromBytes(aligned, byPane, counted, keyClock, bytes)
      case sessions: SessionRules => SessionsOfKey.fromBytes(sessions, !rows.keepsRows, counted, ids, keyClock, bytes)
      case other                  => refused(other)
    }

    private val ids =
      if (!program.rules.refinements.ids) SessionIds.none
      else SessionIds(kept = true, rows.byRow.running || rows.byRow.delayByKey.isDefined, clock.number)

    private def keyClock: KeyClock =
      rows.byRow.delayByKey.fold(KeyClock.ofStream(clock)) { delay =>
        val wall = Option.when(rows.byRow.keysFollowWall)(clock.wall)
        KeyClock.ofKey(delay, BatchClock.BeforeAllTime, wall, rows.byRow.lateBehindClock)
      }
  }
}
