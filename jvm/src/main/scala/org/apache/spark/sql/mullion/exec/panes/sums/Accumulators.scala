package org.apache.spark.sql.mullion.exec.panes.sums

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.exec.panes.PaneProgram
import org.apache.spark.sql.mullion.expressions.Projections
import org.apache.spark.sql.mullion.state.records.RecordBytes
import org.apache.spark.sql.types.{DataType, StructField, StructType}

import dev.mullion.windows.rules.WindowFold

/** The accumulators of a pane, merged as Spark's own aggregates merge them: declarative functions by generated code,
  * imperative ones by their own, typed ones as objects.
  *
  * An accumulator has two forms. At rest, as state keeps it, it is an UnsafeRow: the functions' buffers, then the
  * `notes` that an engine keeps beside them. At work it can be merged into. Where all functions are declarative over
  * fixed-width buffers (counts, sums, means …) both are the same row, changed in place; else typed buffers stand as
  * objects while at work.
  *
  * @param functions
  *   the aggregate functions, as the partial aggregate before the shuffle has them
  * @param notes
  *   the types of further fixed-width columns after the buffers
  * @param inputOffset
  *   where the buffers start in the rows of the partial aggregate
  */
final class Accumulators(
    functions: Seq[AggregateFunction],
    notes: Seq[DataType],
    partial: Seq[Attribute],
    inputOffset: Int
) {
  private val offsets = functions.scanLeft(0)(_ + _.aggBufferAttributes.length)
  private val bufferAttributes = functions.flatMap(_.aggBufferAttributes)
  private val bufferTypes = bufferAttributes.map(_.dataType)

  /** How many columns the buffers take: the first note's ordinal. */
  val width: Int = bufferAttributes.length

  /** The schema of an accumulator at rest. */
  val schema: StructType = Accumulators.schema(functions, notes)

  private val inPlace = Accumulators.areInPlace(functions)

  private val noted = notes.map(t => Literal.default(t))
  // What a batch does not need it does not generate code for.
  private lazy val fromPartial = new Merge(partial, inputOffset)
  private lazy val fromRest = new Merge(functions.flatMap(_.inputAggBufferAttributes), 0)

  private lazy val partialToRest = Projections(
    functions.flatMap(_.inputAggBufferAttributes).zipWithIndex.map { case (a, i) =>
      BoundReference(inputOffset + i, a.dataType, a.nullable): Expression
    } ++ noted
  )
  private lazy val workToRest = UnsafeProjection.create((bufferTypes ++ notes).toArray)
  private lazy val initial = MutableProjection.create(
    functions.flatMap {
      case d: DeclarativeAggregate => d.initialValues
      case other                   => Seq.fill(other.aggBufferAttributes.length)(NoOp)
    },
    Nil
  )

  /** A new accumulator at work, from a row of the partial aggregate; its notes are zero. It may be reused by the next
    * call.
    */
  def open(input: InternalRow): InternalRow =
    if (inPlace) partialToRest(input)
    else {
      val work = blank()
      fromPartial(work, input)
      work
    }

  /** The accumulator at work from its form at rest, which the caller gives up. */
  def load(rest: UnsafeRow): InternalRow =
    if (inPlace) rest
    else {
      val work = blank()
      fromRest(work, rest)
      notes.indices.foreach(i => work.update(width + i, rest.get(width + i, notes(i))))
      work
    }

  /** The accumulator at rest of no rows. */
  lazy val empty: UnsafeRow = {
    val work = blank()
    fromPartial.serialize(work)
    workToRest(work).copy()
  }

  /** Takes away what an accumulator at work holds, but for its notes. */
  def clear(work: InternalRow): Unit = {
    initial.target(work)(InternalRow.empty)
    fromPartial.initialize(work)
  }

  /** Adds a row of the partial aggregate to an accumulator at work. */
  def add(work: InternalRow, input: InternalRow): Unit = fromPartial(work, input)

  /** Adds an accumulator at rest to one at work. */
  def merge(work: InternalRow, rest: UnsafeRow): Unit = fromRest(work, rest)

  /** The sum of two accumulators at rest, which stay as they are. */
  def combine(older: UnsafeRow, newer: UnsafeRow): UnsafeRow = {
    val work = load(if (inPlace) older.copy() else older)
    fromRest(work, newer)
    if (inPlace) rest(work) else rest(work).copy()
  }

  /** The same, where the older one may be changed. */
  def addTo(older: UnsafeRow, newer: UnsafeRow): UnsafeRow =
    if (inPlace) {
      fromRest(older, newer)
      older
    } else combine(older, newer)

  /** The same for several, older first, that lie one behind the other and are of as many bytes each.
    *
    * @param newer
    *   a row that stands on the first of them, and is moved
    */
  def addAllTo(older: UnsafeRow, newer: UnsafeRow, count: Int): UnsafeRow = {
    var sum = older
    var added = if (inPlace) fromRest.mergesLongs(older, newer, count) else 0
    if (added < count) {
      val bytes = newer.getSizeInBytes
      var at = newer.getBaseOffset + added * bytes
      while (added < count) {
        newer.pointTo(newer.getBaseObject, at, bytes)
        sum = addTo(sum, newer)
        at += bytes
        added += 1
      }
    }
    sum
  }

  /** The sum of two accumulators at rest, which stay as they are, in a row that is needed no more if there is such. */
  private def sumIn(room: UnsafeRow, older: UnsafeRow, newer: UnsafeRow): UnsafeRow =
    if (inPlace && (room ne null) && fromRest.sumsLongs(room, older, newer)) room
    else addTo(Accumulators.copied(room, older), newer)

  /** For the sums of windows that overlap. */
  def newFold: WindowFold[UnsafeRow] = new WindowFold(Accumulators.copied, addTo, sumIn)

  /** The form at rest of an accumulator at work, which the caller gives up. It may be reused by the next call. */
  def rest(work: InternalRow): UnsafeRow = work match {
    case row: UnsafeRow => row
    case _              =>
      fromPartial.serialize(work)
      workToRest(work)
  }

  /** A new accumulator at work, of no row. */
  def blank(): InternalRow = {
    val work = new SpecificInternalRow(bufferTypes ++ notes)
    initial.target(work)(InternalRow.empty)
    fromPartial.initialize(work)
    work
  }

  /** Merging of buffers that start at `offset` of a row of `input`. */
  private final class Merge(input: Seq[Attribute], offset: Int) {
    private val imperative: Array[ImperativeAggregate] = functions
      .zip(offsets)
      .collect { case (f: ImperativeAggregate, at) =>
        f.withNewMutableAggBufferOffset(at).withNewInputAggBufferOffset(offset + at)
      }
      .toArray

    // Null where not all are longs: it is asked for more often than rows come.
    private val longs =
      Option
        .when(inPlace)(functions.collect { case d: DeclarativeAggregate => d })
        .flatMap(LongMerge.of(_, offset))
        .orNull

    // Where all are longs few tasks have to: for the others no code is generated.
    private lazy val declarative = {
      val merges = functions.flatMap {
        case d: DeclarativeAggregate => d.mergeExpressions
        case other                   => Seq.fill(other.aggBufferAttributes.length)(NoOp)
      }
      val padding = noted.map(l => AttributeReference("note", l.dataType)())
      MutableProjection.create(merges, bufferAttributes ++ padding ++ input)
    }
    private val both = new JoinedNumbers()

    def initialize(work: InternalRow): Unit = imperative.foreach(_.initialize(work))

    def apply(work: InternalRow, row: InternalRow): Unit = if (!mergesLongs(work, row)) {
      declarative.target(work)(both(work, row))
      var i = 0
      while (i < imperative.length) { imperative(i).merge(work, row); i += 1 }
    }

    private def mergesLongs(work: InternalRow, row: InternalRow): Boolean =
      (longs ne null) && work.isInstanceOf[UnsafeRow] && row.isInstanceOf[UnsafeRow] &&
        longs(work.asInstanceOf[UnsafeRow], row.asInstanceOf[UnsafeRow])

    /** How many of several rows it has added, as it does where all are longs. */
    def mergesLongs(work: UnsafeRow, rows: UnsafeRow, count: Int): Int =
      if (longs eq null) 0 else longs.all(work, rows, count)

    /** True if it has put the sum of two rows into another, as it does where all are longs. */
    def sumsLongs(to: UnsafeRow, one: UnsafeRow, row: UnsafeRow): Boolean =
      (longs ne null) && longs.sum(to, one, row)

    def serialize(work: InternalRow): Unit = imperative.foreach {
      case typed: TypedImperativeAggregate[_] => typed.serializeAggregateBufferInPlace(work)
      case _                                  =>
    }
  }
}

object Accumulators {

  /** A copy of a row, in one that is needed no more if there is such. */
  private val copied = (room: UnsafeRow, row: UnsafeRow) =>
    if (room eq null) row.copy()
    else {
      val bytes = row.getSizeInBytes
      if (room.getSizeInBytes == bytes && bytes <= FewBytes)
        RecordBytes.copyWords(row.getBaseObject, row.getBaseOffset, room.getBaseObject, room.getBaseOffset, bytes)
      else room.copyFrom(row)
      room
    }

  // For so few a call that copies takes longer than their copy.
  private final val FewBytes = 128

  /** Those of a window's panes.
    *
    * @param notes
    *   the types of what its engine keeps beside them
    */
  def of(program: PaneProgram, notes: Seq[DataType]): Accumulators =
    new Accumulators(program.functions, notes, program.partial, program.layout.buffers)

  /** True if accumulators at rest are added to where they stand. */
  def areInPlace(functions: Seq[AggregateFunction]): Boolean =
    functions.forall(_.isInstanceOf[DeclarativeAggregate]) &&
      functions.flatMap(_.aggBufferAttributes).forall(a => UnsafeRow.isMutable(a.dataType))

  def schema(functions: Seq[AggregateFunction], notes: Seq[DataType]): StructType = StructType(
    functions.flatMap(_.aggBufferAttributes).zipWithIndex.map { case (a, i) => StructField(s"buffer$i", a.dataType) } ++
      notes.zipWithIndex.map { case (t, i) => StructField(s"note$i", t) }
  )
}
