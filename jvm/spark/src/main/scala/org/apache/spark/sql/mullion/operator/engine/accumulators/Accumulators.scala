package org.apache.spark.sql.mullion.operator.engine.accumulators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.mullion.expressions.rows.{MixedRow, Projections}
import org.apache.spark.sql.mullion.operator.engine.PaneProgram
import org.apache.spark.sql.mullion.state.record.RecordBytes
import org.apache.spark.sql.types.{DataType, StructField, StructType}

import dev.mullion.windows.rules.WindowFold

/** The accumulators of a pane, merged like Spark's own aggregates: declarative functions by generated code, imperative
  * ones by their own code, typed ones as objects.
  *
  * An accumulator has two forms. At rest, in state, it is an UnsafeRow: the functions' buffers, then the `notes` of the
  * engine. At work it can be merged into. If all functions are declarative over fixed-width buffers (counts, sums,
  * means …), both are the same row, changed in place; else it is a [[MixedRow]], whose other buffers are objects once
  * they are read or changed.
  *
  * @param functions
  *   the aggregate functions, as in the partial aggregate before the shuffle
  * @param notes
  *   the types of further fixed-width columns after the buffers
  * @param inputOffset
  *   the index of the first buffer in the rows of the partial aggregate
  */
final class Accumulators(
    functions: Seq[AggregateFunction],
    notes: Seq[DataType],
    partial: Seq[Attribute],
    inputOffset: Int
) {
  private val bufferAttributes = functions.flatMap(_.aggBufferAttributes)
  private val bufferTypes = bufferAttributes.map(_.dataType)

  /** The number of buffer columns, which is the first note's ordinal. */
  val width: Int = bufferAttributes.length

  /** The schema of an accumulator at rest. */
  val schema: StructType = Accumulators.schema(functions, notes)

  private val inPlace = Accumulators.areInPlace(functions)

  private val noted = notes.map(t => Literal.default(t))
  // Lazy, because a batch rarely needs all of these, and each generates code.
  private lazy val fromPartial = merging(partial, inputOffset)
  private lazy val fromRest = merging(functions.flatMap(_.inputAggBufferAttributes), 0)

  private lazy val partialToRest = Projections(
    functions.flatMap(_.inputAggBufferAttributes).zipWithIndex.map { case (a, i) =>
      BoundReference(inputOffset + i, a.dataType, a.nullable): Expression
    } ++ noted
  )
  // Null if accumulators are updated in place.
  private val columns: MixedRow.Columns = if (inPlace) null else MixedRow.columns(bufferTypes ++ notes, functions, 0)
  private lazy val initial = MutableProjection.create(
    functions.flatMap {
      case d: DeclarativeAggregate => d.initialValues
      case other                   => Seq.fill(other.aggBufferAttributes.length)(NoOp)
    },
    Nil
  )

  private def merging(input: Seq[Attribute], offset: Int) = {
    val padding = noted.map(l => AttributeReference("note", l.dataType)())
    new BufferMerge(functions, Nil, padding, input, offset, inPlace)
  }

  /** A new accumulator at work, from a row of the partial aggregate, with zero notes. The next call may reuse it. */
  def open(input: InternalRow): InternalRow =
    if (inPlace) partialToRest(input) else columns.over(partialToRest(input))

  /** The accumulator at work from its form at rest, which it takes over. */
  def load(rest: UnsafeRow): InternalRow = if (inPlace) rest else columns.over(rest.copy())

  /** The accumulator of no rows, at rest. */
  lazy val empty: UnsafeRow = rest(blank()).copy()

  /** Clears an accumulator at work, except for its notes. */
  def clear(work: InternalRow): Unit = {
    initial.target(work)(InternalRow.empty)
    fromPartial.initialize(work)
  }

  /** Adds a row of the partial aggregate to an accumulator at work. */
  def add(work: InternalRow, input: InternalRow): Unit = fromPartial(work, input)

  /** Adds an accumulator at rest to one at work. */
  def merge(work: InternalRow, rest: UnsafeRow): Unit = fromRest(work, rest)

  /** The sum of two accumulators at rest, which stay unchanged. */
  def combine(older: UnsafeRow, newer: UnsafeRow): UnsafeRow = {
    val work = load(if (inPlace) older.copy() else older)
    fromRest(work, newer)
    if (inPlace) rest(work) else rest(work).copy()
  }

  /** The same, but the older one may be changed. */
  def addTo(older: UnsafeRow, newer: UnsafeRow): UnsafeRow =
    if (inPlace) {
      fromRest(older, newer)
      older
    } else combine(older, newer)

  /** The same for several consecutive ones of equal size, older first.
    *
    * @param newer
    *   a row that points to the first of them, and is moved
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

  /** The sum of two accumulators at rest, which stay unchanged, in an unused row if there is one. */
  private def sumIn(room: UnsafeRow, older: UnsafeRow, newer: UnsafeRow): UnsafeRow =
    if (inPlace && (room ne null) && fromRest.sumsLongs(room, older, newer)) room
    else addTo(Accumulators.copied(room, older), newer)

  /** For the sums of overlapping windows. */
  def newFold: WindowFold[UnsafeRow] = new WindowFold(Accumulators.copied, addTo, sumIn)

  /** The form at rest of an accumulator at work, which it takes over. The next call may reuse it. */
  def rest(work: InternalRow): UnsafeRow = work match {
    case row: UnsafeRow  => row
    case mixed: MixedRow => mixed.toUnsafe
    case other           => throw new IllegalArgumentException(s"$other is no accumulator")
  }

  /** A new accumulator at work, of no rows. */
  def blank(): InternalRow = {
    val work = if (inPlace) zeros.copy() else columns.over(zeros.copy())
    clear(work)
    work
  }

  // Columns of a fixed width are zero, and the others null.
  private lazy val zeros: UnsafeRow = UnsafeProjection.create(
    bufferTypes.map(kind => if (UnsafeRow.isMutable(kind)) Literal.default(kind) else Literal(null, kind)) ++ noted
  )(InternalRow.empty)
}

object Accumulators {

  /** A copy of a row, in an unused one if there is one. */
  private val copied = (room: UnsafeRow, row: UnsafeRow) =>
    if (room eq null) row.copy()
    else {
      val bytes = row.getSizeInBytes
      if (room.getSizeInBytes == bytes && bytes <= FewBytes)
        RecordBytes.copyWords(row.getBaseObject, row.getBaseOffset, room.getBaseObject, room.getBaseOffset, bytes)
      else room.copyFrom(row)
      room
    }

  // A bulk copy is slower for fewer bytes.
  private final val FewBytes = 128

  /** For the panes of a window.
    *
    * @param notes
    *   the types of the engine's additional columns
    */
  def of(program: PaneProgram, notes: Seq[DataType]): Accumulators =
    new Accumulators(program.functions, notes, program.partial, program.layout.buffers)

  /** True if accumulators at rest are updated in place. */
  def areInPlace(functions: Seq[AggregateFunction]): Boolean =
    functions.forall(_.isInstanceOf[DeclarativeAggregate]) &&
      functions.flatMap(_.aggBufferAttributes).forall(a => UnsafeRow.isMutable(a.dataType))

  def schema(functions: Seq[AggregateFunction], notes: Seq[DataType]): StructType = StructType(
    functions.flatMap(_.aggBufferAttributes).zipWithIndex.map { case (a, i) => StructField(s"buffer$i", a.dataType) } ++
      notes.zipWithIndex.map { case (t, i) => StructField(s"note$i", t) }
  )
}
