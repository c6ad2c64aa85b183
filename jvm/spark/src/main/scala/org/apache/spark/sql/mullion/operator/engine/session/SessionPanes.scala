package org.apache.spark.sql.mullion.operator.engine.session

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.udf.FailedAggregate
import org.apache.spark.sql.mullion.operator.engine.accumulators.{Accumulators, PaneSums}
import org.apache.spark.sql.mullion.operator.engine.output.{Firing, PaneName, PaneNames}
import org.apache.spark.sql.mullion.operator.engine.timers.{ActiveKey, KeyedPanes}
import org.apache.spark.sql.mullion.operator.engine.{OpenPane, PaneCounts, PaneProgram}
import org.apache.spark.sql.mullion.state.record.{FamilySpec, StatePartition}
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.MullionException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.session.OpenSessions
import dev.mullion.windows.key.{FiringsBegin, PaneId}
import dev.mullion.windows.rules.{EarlyFiring, FiringKind, LatePolicy, SessionRules}
import dev.mullion.windows.spec.TimeMath

/** Panes of sessions: one accumulator each, by the start of the session. The sessions of a key are in its record (see
  * [[KeyedPanes]]), with their accumulators if these are few and small. A batch therefore only reads and writes the
  * accumulators of sessions that its rows touch.
  *
  * {{{
  *   sessions  (start, key)      -> accumulator, of keys with many
  * }}}
  *
  * A partial row has rows less than a gap apart, with the first and the last of their times. Possibly late rows have a
  * partial row per time, marked: they are late unless they touch a session that was open before this batch.
  */
private[operator] final class SessionPanes(
    program: PaneProgram,
    rules: SessionRules,
    clock: BatchClock,
    partition: StatePartition,
    counts: PaneCounts
) extends KeyedPanes[SessionPanes.SessionKey](program, clock, partition, counts) {
  import SessionPanes._

  private val sums = new PaneSums(program, partition, sessionsFamily(program), accumulators, accumulators.width)
  private val names = new PaneNames(program)
  private val inState =
    new SessionSums.InState(partition.family(sessionsFamily(program)), sums, timed, accumulators)
  private val layout = program.layout
  private val mayBeLateAt = layout.marked.get
  private val gapAt = layout.gap.getOrElse(-1)
  private val firstAt = layout.first
  private val lastAt = layout.last
  private val rowsAt = layout.rows.get
  private val fixedGap = rules.window.gap
  private val ids = rules.refinements.ids
  // The starts of the sessions that a partial row touches.
  private var touched = new Array[Long](4)
  private var endsTouched = new Array[Long](4)
  private var touches = 0
  private val touch: OpenSessions.Session => Unit = { session =>
    if (touches == touched.length) {
      touched = java.util.Arrays.copyOf(touched, 2 * touches)
      endsTouched = java.util.Arrays.copyOf(endsTouched, 2 * touches)
    }
    touched(touches) = session.first
    endsTouched(touches) = session.end
    touches += 1
  }
  // Possibly late rows are put aside, and decided after the input. The sessions of their keys before this batch are
  // kept for that, as a part of state.
  private val openBefore = new java.util.HashMap[UnsafeRow, OpenSessions]()
  private lazy val keyOfAside = UnsafeProjection.create(program.keys, program.lateKey)

  override def isLate(row: UnsafeRow): Boolean = {
    val before = if (openBefore.isEmpty) None.orNull else openBefore.get(keyOfAside(row))
    (before eq null) || {
      val first = row.getLong(layout.slice)
      !before.touches(first, TimeMath.plus(first, fixedGap.getOrElse(row.getLong(layout.gapAside))))
    }
  }

  override protected def newKey(key: UnsafeRow): SessionKey =
    new SessionKey(
      rules,
      clock,
      key,
      ActiveKey.NoTimer,
      OpenSessions.empty,
      OpenSessions.empty,
      None,
      new SessionSums.InHand(inState, key),
      accumulators
    )

  override protected def read(
      key: UnsafeRow,
      due: Long,
      panes: Array[Byte],
      beside: Option[Array[Byte]]
  ): SessionKey = {
    val open = OpenSessions.fromBytes(panes, firesOpen, ids)
    val queued = rules.early.flatMap(open.firstToFire).map(s => (s.eventReading, s.wallReading))
    val inHand = new SessionSums.InHand(inState, key)
    beside.foreach(inHand.read(open, _))
    new SessionKey(
      rules,
      clock,
      key,
      due,
      open,
      OpenSessions.fromBytes(panes, firesOpen, ids),
      queued,
      inHand,
      accumulators
    )
  }

  override protected def atOnce(row: InternalRow): Option[InternalRow] = None

  override protected def update(active: SessionKey, row: InternalRow): Unit = {
    val first = row.getLong(firstAt)
    val end = TimeMath.plus(row.getLong(lastAt), fixedGap.getOrElse(row.getLong(gapAt)))
    val mayBeLate = row.getBoolean(mayBeLateAt)
    if (!mayBeLate || active.before.touches(first, end)) {
      if (mayBeLate && rules.late == LatePolicy.Emit) openBefore.put(active.key, active.before)
      val before = active.open.size
      val session = merge(active.open, active.sums, active.key, first, end, row)
      var i = 0
      while (i < touches) { counts.closesAt(endsTouched(i)); i += 1 }
      counts.opensAt(session.end)
      counts.panesOpened += active.open.size - before
    } else {
      counts.countLate(row.getLong(rowsAt), rules.late, TimeMath.minus(clock.before, rules.closeDue(end)))
      rules.late match {
        case LatePolicy.Drop | LatePolicy.Emit         => ()
        case LatePolicy.Reopen | LatePolicy.ReopenEach =>
          merge(active.reopened, active.sumsReopened, active.key, first, end, row)
          ()
      }
    }
  }

  /** Sessions of late rows: due at once, so they need no state. */
  private def reopened(active: SessionKey): Iterator[InternalRow] =
    if (active.reopened.isEmpty) Iterator.empty
    else {
      counts.firedClose += active.reopened.size
      active.reopened.iterator.map { session =>
        val name = output.nameOfReopened(session.first, session.end, clock.number)
        fire(active, session, Firing.Close, name, active.sumsReopened.shown(session.first))
      }
    }

  // Done when records of the previous rules are read.
  override protected def begin(active: SessionKey, rules: FiringsBegin): Unit = ()

  override protected def applied(active: SessionKey): Iterator[InternalRow] =
    if (!rules.refinements.fires) reopened(active)
    else
      reopened(active) ++ active.open.iterator.flatMap { session =>
        rules.afterRows(session.end, session.rows, session.wasOnTime, clock).map(fireOpen(active, session, _))
      }

  override protected def close(active: SessionKey): Iterator[InternalRow] = {
    val closing = new Iterator[InternalRow] {
      override def hasNext: Boolean = !active.open.isEmpty && clock.closes(rules.closeDue(active.open(0).end))

      override def next(): InternalRow = {
        val session = active.open(0)
        val row = fire(active, session, Firing.Close, active.sums.shown(session.first))
        active.sums.remove(session.first)
        active.open.removeFirst()
        counts.closed(session.end)
        counts.firedClose += 1
        row
      }
    }
    def endsNow(session: OpenSessions.Session) = !session.wasOnTime && rules.isOnTime(session.end, clock)
    if (!rules.refinements.onTime) closing
    else closing ++ active.open.iterator.filter(endsNow).map(fireOpen(active, _, FiringKind.OnTime))
  }

  override protected def fireEarly(active: SessionKey, early: EarlyFiring): Iterator[InternalRow] =
    active.open.iterator.filter(_.isDue(early, clock)).map(fireOpen(active, _, FiringKind.Early))

  override protected def look(active: SessionKey, due: Long): Iterator[OpenPane] = active.open.iterator.map { session =>
    val row = fire(active, session, Firing.Close, active.sums.shown(session.first))
    OpenPane(row, Option.when(firesOpen)(session.wallReading), end = Some(session.end))
  }

  private def fireOpen(active: SessionKey, session: OpenSessions.Session, kind: FiringKind): InternalRow = {
    counts.fired(kind)
    val row = fire(active, session, Firing.of(kind), active.sums.shown(session.first))
    session.fire(kind, clock)
    if (!rules.refinements.accumulate) active.sums.clear(session.first)
    row
  }

  private def fire(
      active: SessionKey,
      session: OpenSessions.Session,
      firing: UTF8String,
      accumulator: UnsafeRow
  ): InternalRow =
    fire(active, session, firing, nameOf(session), accumulator)

  private def fire(
      active: SessionKey,
      session: OpenSessions.Session,
      firing: UTF8String,
      name: PaneName,
      accumulator: UnsafeRow
  ): InternalRow =
    output.fire(active.key, session.first, session.end, firing, session.fired, name, accumulators.load(accumulator))

  private def nameOf(session: OpenSessions.Session): PaneName =
    if (!ids) PaneName.none
    else {
      session.name(origin(rules, clock))
      PaneName(session.id.text, session.merged.map(_.text))
    }

  /** Adds a partial row to `open`, and merges the accumulators that it touches, in order of time. Returns the resulting
    * session; `endsTouched` has the previous ends of its parts.
    */
  private def merge(
      open: OpenSessions,
      accumulatorsOf: SessionSums,
      key: UnsafeRow,
      first: Long,
      end: Long,
      row: InternalRow
  ): OpenSessions.Session = {
    touches = 0
    val session = open.add(first, end, row.getLong(rowsAt), clock)(touch)
    try mergeTouched(accumulatorsOf, key, session, first, row)
    catch { case e: MullionException => throw FailedAggregate.in(names(session.first, session.end, key), e) }
    session
  }

  private def mergeTouched(
      accumulatorsOf: SessionSums,
      key: UnsafeRow,
      session: OpenSessions.Session,
      first: Long,
      row: InternalRow
  ): Unit = {
    def checked(rest: UnsafeRow) = {
      if (sums.isTooLarge(rest)) throw sums.tooLarge(rest, names(session.first, session.end, key))
      rest
    }
    if (touches == 0) accumulatorsOf.insert(first, checked(accumulatorsOf.store(first, accumulators.open(row))))
    else if (touches == 1 && touched(0) <= first) {
      val work = accumulators.load(accumulatorsOf.get(touched(0)))
      accumulators.add(work, row)
      accumulatorsOf.update(touched(0), checked(accumulatorsOf.store(touched(0), work)))
    } else {
      // The row is between or before the sessions: accumulators are merged in order of time.
      var added = false
      var sum = Option.empty[UnsafeRow]
      def add(next: UnsafeRow): Unit = sum = Some(sum.fold(next.copy())(accumulators.addTo(_, next)))
      touched.take(touches).foreach { start =>
        if (!added && start > first) { add(accumulators.rest(accumulators.open(row)).copy()); added = true }
        add(accumulatorsOf.complete(start))
        accumulatorsOf.remove(start)
      }
      if (!added) add(accumulators.rest(accumulators.open(row)).copy())
      sum.foreach { all =>
        val start = session.first
        accumulatorsOf.insert(start, checked(accumulatorsOf.store(start, accumulators.load(all))))
      }
    }
  }
}

private[operator] object SessionPanes {

  /** The sessions of one key.
    *
    * @param openBefore
    *   those open before this batch, only read for possibly late rows
    */
  final class SessionKey(
      rules: SessionRules,
      clock: BatchClock,
      val key: UnsafeRow,
      val timer: Long,
      val open: OpenSessions,
      openBefore: => OpenSessions,
      val queued: Option[(Long, Long)],
      val sums: SessionSums.InHand,
      accumulators: Accumulators
  ) extends ActiveKey {
    lazy val before: OpenSessions = openBefore
    lazy val sumsReopened: SessionSums.InMemory = new SessionSums.InMemory(accumulators)
    val reopened: OpenSessions = OpenSessions.empty

    override def isEmpty: Boolean = open.isEmpty

    override def nextDue: Long =
      if (!rules.refinements.onTime) rules.closeDue(open(0).end)
      else open.iterator.map(s => Math.max(clock.now, rules.nextDue(s.end, s.wasOnTime))).min

    override def firstReadings(early: EarlyFiring): Option[(Long, Long)] =
      open.firstToFire(early).map(s => (s.eventReading, s.wallReading))

    override def stored: (Array[Byte], Array[Byte]) = {
      val ids = rules.refinements.ids
      if (ids) open.foreach(_.name(origin(rules, clock)))
      (open.toBytes(rules.firesOpen, ids), sums.leave(open))
    }
  }

  /** Distinguishes sessions with the same opening time. */
  private def origin(rules: SessionRules, clock: BatchClock): Long =
    if (rules.window.gap.isDefined) 0L else PaneId.origin(clock.number, 0L)

  def families(program: PaneProgram): Seq[FamilySpec] =
    PaneSums.families(program, sessionsFamily(program)) ++ KeyedPanes.families(program)

  private def sessionsFamily(program: PaneProgram): FamilySpec =
    KeyedPanes.accumulatorsFamily(program, "sessions", "start", PaneSums.notes(program))
}
