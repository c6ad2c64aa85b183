package org.apache.spark.sql.mullion.exec.panes

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.KnownAggregates
import org.apache.spark.sql.mullion.state.header.{StateChange, StateHeader}
import org.apache.spark.sql.mullion.state.records.{FamilySpec, StatePartition}
import org.apache.spark.sql.types.LongType

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.key.OpenSessions

/** What is done with the state of a query that has changed, in the first batch: each partition's records are made what
  * the operator wants before it takes a row. They are committed with the batch, so a batch that fails leaves the state
  * of before.
  *
  * @param families
  *   the kinds of record that there were, and that the operator has no more
  */
private[exec] final case class StateAdaptation(families: Seq[FamilySpec], windows: Seq[WindowAdaptation]) {

  /** Makes a partition's records what the operator wants. */
  def apply(partition: StatePartition, clock: BatchClock): Unit = windows.foreach(_.apply(partition, clock))
}

/** The same of one window.
  *
  * @param within
  *   of several windows, the one that it is of
  */
private[exec] final case class WindowAdaptation(
    program: WindowProgram,
    was: StateHeader,
    within: Option[TogetherWindow]
) {
  private val now = program.header
  private val before = was.functions.getOrElse(Nil)
  private val hadLists = before.exists(_.isInChunks)

  /** Kinds of record that are gone. */
  def gone: Seq[FamilySpec] =
    if (!hadLists || PaneSums.notes(program).nonEmpty || program.rows.isDefined) Nil
    else Seq(WindowAdaptation.chunksThatWere(program, before))

  def named(family: FamilySpec): FamilySpec = within.fold(family)(_.named(family))

  def apply(all: StatePartition, clock: BatchClock): Unit = {
    val partition = within.fold(all)(new NamedPartition(_, all))
    if (was.functions != now.functions && was.functions.isDefined && now.functions.isDefined)
      new Accumulated(partition).adapt()
    if (was.allowedLateness != now.allowedLateness)
      program.engine(clock, partition, new PaneCounts) match {
        case keyed: KeyedPanes[_] => keyed.setTimers()
        case _                    =>
      }
  }

  /** Accumulators as they were, made accumulators as they are. */
  private final class Accumulated(partition: StatePartition) {
    private val notes = if (program.rows.isDefined) Nil else WindowAdaptation.notes(program)
    private val chunkNotes = if (program.rows.isDefined) Nil else PaneSums.notes(program)
    private val fresh = program.accumulators(notes ++ chunkNotes)
    private val none = fresh.empty
    private val kept = StateChange.kept(was, now)
    private val offsets = before.scanLeft(0)(_ + _.buffers.length)
    private val widthBefore = offsets.last + notes.length + (if (hadLists && program.rows.isEmpty) 2 else 0)
    private val both = new JoinedRow()
    private val from = new UnsafeRow(widthBefore)

    private val columns: Seq[Expression] = {
      var at = 0
      val buffers = program.functions.zip(kept).flatMap { case (function, old) =>
        function.aggBufferAttributes.zipWithIndex.map { case (buffer, i) =>
          val here = at
          at += 1
          BoundReference(old.fold(widthBefore + here)(offsets(_) + i), buffer.dataType, nullable = true)
        }
      }
      val noted = notes.zipWithIndex.map { case (t, i) => BoundReference(offsets.last + i, t, nullable = true) }
      val chunked = chunkNotes.zipWithIndex.map { case (t, i) =>
        if (hadLists) BoundReference(offsets.last + notes.length + i, t, nullable = true) else Literal.default(t)
      }
      buffers ++ noted ++ chunked
    }
    private val project = UnsafeProjection.create(columns)
    private val known = program.functions.lastOption.collect { case _: KnownAggregates => fresh.width - 2 }
    // The last function says what is known of the others.
    private val knew = Option.when(was.fromNow.contains(true))(offsets(before.length - 1))
    private val ordinary = known.fold(kept)(_ => kept.init)

    /** One of now, of one of before; it stands until the next call. */
    private def made(old: UnsafeRow): UnsafeRow = {
      from.pointTo(old.getBaseObject, old.getBaseOffset, old.getSizeInBytes)
      val row = project(both(from, none))
      known.foreach { at =>
        val (missing, seen) = knew.fold((0L, -1L))(k => (from.getLong(k), from.getLong(k + 1)))
        row.setLong(at, KnownAggregates.moved(missing, ordinary, ofNew = true))
        row.setLong(at + 1, KnownAggregates.moved(seen, ordinary, ofNew = false))
      }
      row
    }

    def adapt(): Unit = {
      val main = program.families.head
      rewrite(main)(made)
      if (program.isSession && program.rows.isEmpty) adaptKeys(program.families.find(_.name == "keys").get)
      gone.foreach(clear)
      if (hadLists && chunkNotes.nonEmpty) adaptChunks(PaneSums.chunksFamily(program, main).get)
    }

    private def rewrite(spec: FamilySpec)(value: UnsafeRow => UnsafeRow): Unit = {
      val family = partition.family(spec)
      val records = family.all()
      try records.foreach(record => family.update(record.key, value(record.value)))
      finally records.close()
    }

    private def clear(spec: FamilySpec): Unit = {
      val family = partition.family(spec)
      val records = family.all()
      try records.foreach(record => family.remove(record.key))
      finally records.close()
    }

    /** The records of keys have the accumulators of few and small sessions: see `SessionSums`. */
    private def adaptKeys(spec: FamilySpec): Unit = {
      val write = new KeyRecord.Writer(spec.value)
      rewrite(spec) { record =>
        val panes = KeyRecord.panes(record)
        KeyRecord.beside(record).fold(record) { bytes =>
          val open = OpenSessions.fromBytes(panes, program.rules.firesOpen, program.rules.refinements.ids).size
          write(KeyRecord.due(record), panes, SessionSums.rewritten(bytes, open)(made))
        }
      }
    }

    /** Lists in chunks are in the order of the functions. */
    private def adaptChunks(spec: FamilySpec): Unit = {
      val lists = before.zipWithIndex.filter(_._1.isInChunks).map(_._2)
      val row = new UnsafeRow(lists.length)
      val starts = program.functions.scanLeft(0)(_ + _.aggBufferAttributes.length)
      val columns = program.functions.zip(kept).zipWithIndex.collect {
        case ((function, old), i) if PaneSums.words(program, function).nonEmpty =>
          val at = old.map(lists.indexOf(_)).getOrElse(lists.length + starts(i))
          BoundReference(at, fresh.schema(starts(i)).dataType, nullable = true): Expression
      }
      val chunk = UnsafeProjection.create(columns)
      rewrite(spec) { old =>
        row.pointTo(old.getBaseObject, old.getBaseOffset, old.getSizeInBytes)
        chunk(both(row, none))
      }
    }
  }
}

private[exec] object WindowAdaptation {

  /** What accumulators have after their buffers, but for what is noted of chunks. */
  private def notes(program: WindowProgram) =
    if (program.families.head.name == "panes") PaneNotes.types(program.rules) else Nil

  /** How chunks were kept, for aggregates that are gone. */
  private def chunksThatWere(program: WindowProgram, before: Seq[StateHeader.Function]): FamilySpec = {
    val lists = before.filter(_.isInChunks).map(_ => LongType)
    PaneSums.chunksOf(program.families.head, lists)
  }
}
