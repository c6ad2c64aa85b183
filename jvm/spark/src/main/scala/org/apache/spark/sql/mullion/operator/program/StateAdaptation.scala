package org.apache.spark.sql.mullion.operator.program

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.functions.{Distinct, KnownAggregates}
import org.apache.spark.sql.mullion.operator.engine.accumulators.{Accumulators, DistinctRecords, PaneNotes, PaneSums}
import org.apache.spark.sql.mullion.operator.engine.aligned.{SlidingPanes, TumblingPanes}
import org.apache.spark.sql.mullion.operator.engine.session.SessionSums
import org.apache.spark.sql.mullion.operator.engine.timers.{EarlyKeys, KeyRecord, KeyedPanes}
import org.apache.spark.sql.mullion.operator.engine.{PaneCounts, PartitionTotals}
import org.apache.spark.sql.mullion.state.header.{StateChange, StateHeader}
import org.apache.spark.sql.mullion.state.record.{BorrowedRow, Family, FamilySpec, StatePartition}
import org.apache.spark.sql.types.LongType

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.FiringsBegin
import dev.mullion.windows.key.session.OpenSessions

/** The conversion of state after a change of the query, in the first batch: each partition's records are converted
  * before its first row. The conversion is committed with the batch, so a failed batch leaves the old state.
  *
  * @param families
  *   previous kinds of record that the operator no longer has
  * @param moves
  *   previous kinds that are now of another kind without records
  * @param dropped
  *   the kinds of record of removed windows
  * @param leaving
  *   if there are any, the operator's program for the windows that stay
  */
private[operator] final case class StateAdaptation(
    families: Seq[FamilySpec],
    windows: Seq[WindowAdaptation],
    moves: Seq[(FamilySpec, FamilySpec)] = Nil,
    dropped: Seq[FamilySpec] = Nil,
    leaving: Option[OperatorProgram] = None
) {

  /** Converts a partition's records. */
  def apply(partition: StatePartition, clock: BatchClock, counts: PaneCounts): Unit = {
    moves.foreach { case (from, to) => move(partition.family(from), partition.family(to)) }
    windows.foreach(_.apply(partition, clock))
    dropped.foreach(of => partition.family(of).clear())
    // Removed panes are not counted.
    leaving.foreach { program =>
      val openPanes = program.engine(BatchClock.Inspection, partition, new PaneCounts).openPanes().size
      counts.panesClosed += new PartitionTotals(partition).panes - openPanes
    }
  }

  private def move(from: Family, to: Family): Unit = {
    val records = from.all()
    try
      records.foreach { record =>
        to.insert(record.key.untilNextCall, record.value.untilNextCall)
        records.remove()
      }
    finally records.close()
  }
}

/** The conversion of one window.
  *
  * @param within
  *   for several windows, the window's own part
  */
private[operator] final case class WindowAdaptation(
    program: WindowProgram,
    was: StateHeader,
    within: Option[TogetherWindow]
) {
  private val now = program.header
  private val before = was.functions.getOrElse(Nil)
  private val hadLists = before.exists(_.isInChunks)
  private val hadValues = before.exists(_.isByValue)

  private val isOnePane = program.families.head.name == "panes"
  private val early = if (isOnePane) TumblingPanes.earlyFamily(program) else EarlyKeys.family(program)

  private val values = DistinctRecords.family(program.families.head)
  // The functions with distinct values.
  private val ids = program.functions.collect { case of: Distinct => of.id }

  /** Removed kinds of record. */
  def gone: Seq[FamilySpec] = {
    val chunks = hadLists && PaneSums.notes(program).isEmpty && program.rows.isEmpty
    Option.when(chunks)(WindowAdaptation.chunksThatWere(program, before)).toSeq ++
      Option.when(hadValues && ids.isEmpty)(values) ++
      Option.when(was.early.isDefined && now.early.isEmpty)(early)
  }

  def named(family: FamilySpec): FamilySpec = within.fold(family)(_.named(family))

  def apply(all: StatePartition, clock: BatchClock): Unit = {
    val partition = within.fold(all)(new NamedPartition(_, all))
    val begin = Option.when(StateChange.beginsFirings(was, now))(
      FiringsBegin(clock, was.firesOpen, was.early, was.refinements, now.refinements)
    )
    val functionsChange = was.functions != now.functions && was.functions.isDefined && now.functions.isDefined
    val records = new Records(partition)
    val sums = Option.when(functionsChange || (begin.isDefined && isOnePane))(new Accumulated(records, begin))
    sums.foreach(_.adapt(partition))
    if (program.isSession && program.rows.isEmpty && (functionsChange || begin.isDefined))
      adaptSessions(records, sums, begin)
    if (begin.isDefined && was.early.isDefined) records.clear(early)
    if (begin.isDefined || was.allowedLateness != now.allowedLateness)
      program.engineOfPanes(clock, partition, new PaneCounts) match {
        case keyed: KeyedPanes[_]                            => keyed.setTimers(begin)
        case panes: TumblingPanes if program.rules.firesOpen => begin.foreach(_ => panes.setQueue())
        case _                                               =>
      }
  }

  /** The records of keys contain their sessions with their firings, and if these are few and small, the accumulators:
    * see `SessionSums`.
    */
  private def adaptSessions(records: Records, sums: Option[Accumulated], begin: Option[FiringsBegin]): Unit = {
    val spec = program.families.find(_.name == "keys").get
    val write = new KeyRecord.Writer
    val ids = program.rules.refinements.ids
    records.rewrite(spec) { record =>
      val open = OpenSessions.fromBytes(KeyRecord.panes(record), was.firesOpen, ids)
      begin.foreach(open.begin)
      val sumBytes = KeyRecord.beside(record).map { bytes =>
        sums.fold(bytes)(changed => SessionSums.rewritten(bytes, open.size)(changed.convert))
      }
      write(KeyRecord.due(record), open.toBytes(program.rules.firesOpen, ids), sumBytes.orNull)
    }
  }

  /** The records of the window in a partition. */
  private final class Records(partition: StatePartition) {
    def rewrite(spec: FamilySpec)(value: BorrowedRow => UnsafeRow): Unit = {
      val family = partition.family(spec)
      val records = family.all()
      try records.foreach(record => family.update(record.key.untilNextCall, value(record.value)))
      finally records.close()
    }

    def clear(spec: FamilySpec): Unit = partition.family(spec).clear()

    /** Removes the distinct values of removed functions. */
    def removeValues(spec: FamilySpec): Unit = {
      val functionAt = spec.key.length - 2
      val records = partition.family(spec).all()
      try records.foreach(record => if (!ids.contains(record.key.getLong(functionAt))) records.remove())
      finally records.close()
    }
  }

  /** Converts old accumulators to new ones. */
  private final class Accumulated(records: Records, begin: Option[FiringsBegin]) {
    private val notes = if (isOnePane && program.rows.isEmpty) PaneNotes.types(program.rules) else Nil
    private val notesBefore = if (isOnePane && program.rows.isEmpty) PaneNotes.typesIf(was.firesOpen) else Nil
    private val chunkNotes = if (program.rows.isDefined) Nil else PaneSums.notes(program)
    private val fresh = Accumulators.of(program, notes ++ chunkNotes)
    private val none = fresh.empty
    private val previousPositions =
      if (was.functions.isDefined && now.functions.isDefined) StateChange.previousPositions(was, now)
      else program.functions.indices.map(Some(_))
    private val widths =
      if (was.functions.isDefined) before.map(_.buffers.length) else program.functions.map(_.aggBufferAttributes.length)
    private val hadChunks = if (was.functions.isDefined) hadLists else chunkNotes.nonEmpty
    private val offsets = widths.scanLeft(0)(_ + _)
    private val widthBefore = offsets.last + notesBefore.length + (if (hadChunks && program.rows.isEmpty) 2 else 0)
    private val buffersBefore =
      if (was.functions.isDefined) before.flatMap(_.buffers)
      else program.functions.flatMap(_.aggBufferAttributes.map(_.dataType.sql))
    private val both = new JoinedRow()
    private val from = new UnsafeRow(widthBefore)

    private val columns: Seq[Expression] = {
      var at = 0
      val buffers = program.functions.zip(previousPositions).flatMap { case (function, old) =>
        function.aggBufferAttributes.zipWithIndex.map { case (buffer, i) =>
          val here = at
          at += 1
          BoundReference(old.fold(widthBefore + here)(offsets(_) + i), buffer.dataType, nullable = true)
        }
      }
      val noted = (notes, notesBefore) match {
        case (Nil, _)   => Nil
        case (_, Nil)   => begin.toSeq.flatMap(b => PaneNotes.asIfFired(b.clock))
        case (types, _) =>
          types.zipWithIndex.map { case (t, i) => BoundReference(offsets.last + i, t, nullable = true) }
      }
      val chunked = chunkNotes.zipWithIndex.map { case (t, i) =>
        if (hadChunks) BoundReference(offsets.last + notesBefore.length + i, t, nullable = true)
        else Literal.default(t)
      }
      buffers ++ noted ++ chunked
    }
    private val project = UnsafeProjection.create(columns)
    private val knownAt = program.functions.lastOption.collect { case _: KnownAggregates => fresh.width - 2 }
    // The last function tracks the others.
    private val knew = Option.when(was.fromNow.contains(true))(offsets(widths.length - 1))
    private val ordinary = knownAt.fold(previousPositions)(_ => previousPositions.init)
    private val noted = new PaneNotes(program.rules, fresh.width)

    /** A new accumulator for an old one, valid until the next call. */
    def convert(old: UnsafeRow): UnsafeRow = {
      from.pointTo(old.getBaseObject, old.getBaseOffset, old.getSizeInBytes)
      val row = project(both(from, none))
      if (was.functions != now.functions) knownAt.foreach { at =>
        val (missing, seen) = knew.fold((0L, -1L))(k => (from.getLong(k), from.getLong(k + 1)))
        row.setLong(at, KnownAggregates.moved(missing, ordinary, ofNew = true))
        row.setLong(at + 1, KnownAggregates.moved(seen, ordinary, ofNew = false))
      }
      if (notes.nonEmpty && notesBefore.nonEmpty) begin.foreach(noted.beginAgain(row, _))
      row
    }

    def adapt(partition: StatePartition): Unit = {
      val main = program.families.head
      if (main.name == SlidingPanes.Records)
        new SlicesAdaptation(program, partition, widthBefore, buffersBefore, convert).adapt()
      else records.rewrite(main)(old => convert(old.untilNextCall))
      if (hadLists && chunkNotes.isEmpty && program.rows.isEmpty)
        records.clear(WindowAdaptation.chunksThatWere(program, before))
      if (hadLists && chunkNotes.nonEmpty && was.functions != now.functions)
        adaptChunks(PaneSums.chunksFamily(program, main).get)
      if (hadValues && was.functions != now.functions) records.removeValues(values)
    }

    /** Chunked lists are in the order of the functions. */
    private def adaptChunks(spec: FamilySpec): Unit = {
      val lists = before.zipWithIndex.filter(_._1.isInChunks).map(_._2)
      val row = new UnsafeRow(lists.length)
      val starts = program.functions.scanLeft(0)(_ + _.aggBufferAttributes.length)
      val columns = program.functions.zip(previousPositions).zipWithIndex.collect {
        case ((function, old), i) if PaneSums.words(program, function).nonEmpty =>
          val at = old.map(lists.indexOf(_)).getOrElse(lists.length + starts(i))
          BoundReference(at, fresh.schema(starts(i)).dataType, nullable = true): Expression
      }
      val chunk = UnsafeProjection.create(columns)
      records.rewrite(spec) { old =>
        val chunkBefore = old.untilNextCall
        row.pointTo(chunkBefore.getBaseObject, chunkBefore.getBaseOffset, chunkBefore.getSizeInBytes)
        chunk(both(row, none))
      }
    }
  }
}

private[operator] object WindowAdaptation {

  /** The record kind of chunks of removed aggregates. */
  private def chunksThatWere(program: WindowProgram, before: Seq[StateHeader.Function]): FamilySpec = {
    val lists = before.filter(_.isInChunks).map(_ => LongType)
    PaneSums.chunksOf(program.families.head, lists)
  }
}
