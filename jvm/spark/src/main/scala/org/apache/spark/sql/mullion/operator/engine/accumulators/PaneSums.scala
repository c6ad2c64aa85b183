package org.apache.spark.sql.mullion.operator.engine.accumulators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateFunction, CollectList, ListAgg}
import org.apache.spark.sql.mullion.expressions.functions.{Deduplicated, Distinct}
import org.apache.spark.sql.mullion.operator.engine.PaneProgram
import org.apache.spark.sql.mullion.state.header.StateHeader
import org.apache.spark.sql.mullion.state.record.{BorrowedRow, Family, FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.rules.{AlignedRules, CustomRules, NumberedRules, PaneRules}

/** Accumulators in state that may grow with every row. Long appended lists are stored in chunks, so that a batch only
  * writes its own rows; and the size of a pane is limited.
  *
  * {{{
  *   accumulators  (pane)          -> counts, sums, ..., the end of the lists, [number of chunks, their bytes]
  *   chunks        (pane, number)  -> the earlier parts of the lists
  * }}}
  *
  * A list is not chunked where speculative copies of a task run: there a batch may continue from one attempt's records
  * and overwrite another's.
  *
  * Deduplicated rows are such a list too: duplicates are removed when chunks are merged.
  *
  * Distinct values have a record each: see [[DistinctRecords]].
  *
  * Other growing aggregates, such as sets and exact percentiles, are written entirely: the addition of a batch is only
  * known after merging it with everything, and chunks would store elements many times.
  *
  * @param heads
  *   the records of accumulators
  * @param accumulators
  *   with `PaneSums.notes` as their last notes
  * @param notesAt
  *   the index of those
  */
private[operator] final class PaneSums(
    program: PaneProgram,
    partition: StatePartition,
    heads: FamilySpec,
    accumulators: Accumulators,
    notesAt: Int
) {
  import PaneSums._

  private val functions = program.functions
  private val offsets = functions.scanLeft(0)(_ + _.aggBufferAttributes.length)
  private val lists = functions.zip(offsets).collect { case (f, at) if isList(f) => at }.toArray
  private val chunked = lists.nonEmpty
  // Eager: creating it overwrites the reused row of accumulators at rest.
  private val nothing: UnsafeRow = if (chunked) accumulators.empty else new UnsafeRow(0)
  private val countAt = notesAt
  private val bytesAt = notesAt + 1
  private val limit = program.limit.bytes
  private val distinct = new DistinctRecords(functions, heads, partition)
  private val hasDistinct = !distinct.isEmpty
  private lazy val chunks: Family = partition.family(chunksFamily(program, heads).get)

  private lazy val chunkKey = new Numbered(heads.key)
  private lazy val toChunk = UnsafeProjection.create(lists.toSeq.map(bound))
  private lazy val both = new JoinedRow()

  /** The rest of an accumulator after its lists have moved to a chunk: over an accumulator and an empty one. */
  private lazy val toHead = UnsafeProjection.create(accumulators.schema.indices.map { i =>
    if (lists.contains(i)) bound(i + accumulators.schema.length) else bound(i)
  })

  /** An accumulator that only has lists: over a chunk and an empty one. */
  private lazy val fromChunk = UnsafeProjection.create((0 until accumulators.width).map { i =>
    val at = lists.indexOf(i)
    if (at >= 0) BoundReference(at, accumulators.schema(i).dataType, nullable = true)
    else BoundReference(lists.length + i, accumulators.schema(i).dataType, nullable = true)
  })

  private def bound(i: Int): Expression =
    BoundReference(i, accumulators.schema(i % accumulators.schema.length).dataType, nullable = true)

  /** The form at rest of an accumulator at work, which it takes over, to be stored under `key`. */
  def store(key: UnsafeRow, work: InternalRow): UnsafeRow = {
    settle(key, work)
    val rest = accumulators.rest(work)
    if (chunked && listBytes(rest) >= ChunkBytes) moved(key, rest) else rest
  }

  /** Prepares an accumulator at work, to which rows have been added, for firings before it is stored under `key`. */
  def settle(key: UnsafeRow, work: InternalRow): Unit = if (hasDistinct) distinct.settle(key, work)

  private def moved(key: UnsafeRow, rest: UnsafeRow): UnsafeRow = {
    val bytes = listBytes(rest)
    chunks.insert(chunkKey(key, rest.getInt(countAt).toLong), toChunk(rest))
    val head = toHead(both(rest, nothing))
    head.setInt(countAt, head.getInt(countAt) + 1)
    head.setLong(bytesAt, head.getLong(bytesAt) + bytes)
    head
  }

  private def listBytes(rest: UnsafeRow): Long = {
    var bytes = 0L
    var i = 0
    // The low half of a binary column's word is its size.
    while (i < lists.length) { bytes += rest.getLong(lists(i)).toInt; i += 1 }
    bytes
  }

  /** The content of a pane at work, to be shown by a firing. The accumulator at work stays unchanged. */
  def shown(key: UnsafeRow, work: InternalRow): InternalRow = {
    val listed = withChunks(key, work)
    if (hasDistinct) distinct.shown(key, listed) else listed
  }

  /** The same at rest, without notes. */
  def shown(key: UnsafeRow, rest: UnsafeRow): UnsafeRow =
    if (isInRecords(rest)) accumulators.rest(shown(key, accumulators.load(rest))) else rest

  /** The entire content of a pane at rest, to be merged with others, without notes. */
  def complete(key: UnsafeRow, rest: UnsafeRow): UnsafeRow =
    if (!isInRecords(rest)) rest
    else {
      val listed = withChunks(key, accumulators.load(rest))
      accumulators.rest(if (hasDistinct) distinct.complete(key, listed) else listed)
    }

  private def isInRecords(rest: UnsafeRow): Boolean =
    (chunked && rest.getInt(countAt) > 0) || (hasDistinct && distinct.hasRecords(rest))

  private def withChunks(key: UnsafeRow, work: InternalRow): InternalRow =
    if (!chunked || work.getInt(countAt) == 0) work
    else {
      val sum = accumulators.blank()
      val scan = ofKey(key)
      try scan.foreach(chunk => accumulators.merge(sum, fromChunk(both(chunk.value.untilNextCall, nothing))))
      finally scan.close()
      accumulators.merge(sum, accumulators.rest(work.copy()))
      sum
    }

  /** A borrowed key of a record that stays valid after `shown` and `complete`, which may read other records. */
  def keyThroughout(borrowed: BorrowedRow): UnsafeRow =
    if (chunked || hasDistinct) borrowed.copy() else borrowed.untilNextCall

  /** Removes the further records of `key`. */
  def drop(key: UnsafeRow): Unit = {
    if (chunked) dropChunks(key)
    if (hasDistinct) distinct.drop(key)
  }

  /** The same, if its accumulator at work has any. */
  def drop(key: UnsafeRow, work: InternalRow): Unit = {
    if (chunked && work.getInt(countAt) > 0) dropChunks(key)
    if (hasDistinct && distinct.hasRecords(work)) distinct.drop(key)
  }

  private def dropChunks(key: UnsafeRow): Unit = {
    val scan = ofKey(key)
    val numbered =
      try scan.map(_.key.copy())
      finally scan.close()
    numbered.foreach(chunks.remove)
  }

  /** Also clears the accumulator at work. */
  def clear(key: UnsafeRow, work: InternalRow): Unit = {
    drop(key, work)
    if (chunked) {
      work.setInt(countAt, 0)
      work.setLong(bytesAt, 0L)
    }
    accumulators.clear(work)
  }

  private def ofKey(key: UnsafeRow) = chunks.range(chunkKey(key, 0L).copy(), chunkKey(key, Long.MaxValue))

  def isTooLarge(rest: UnsafeRow): Boolean = sizeOf(rest) > limit

  private def sizeOf(rest: UnsafeRow): Long =
    rest.getSizeInBytes + (if (chunked) rest.getLong(bytesAt) else 0L) + (if (hasDistinct) distinct.bytes(rest) else 0L)

  /** @param pane
    *   its name in the error
    */
  def tooLarge(rest: UnsafeRow, pane: String): MullionException =
    PaneSums.tooLarge(program, functions, rest, sizeOf(rest), pane)
}

private[operator] object PaneSums {

  /** The size at which lists move to a chunk: large enough for few records, small enough to be rewritten by each batch.
    */
  private val ChunkBytes = 64L * 1024

  private def isList(function: AggregateFunction): Boolean = function match {
    case _: CollectList | _: ListAgg | _: Deduplicated => true
    case _                                             => false
  }

  /** A description of the storage of a function's accumulators, if it is special. */
  def words(program: PaneProgram, function: AggregateFunction): String =
    if (program.rows.isEmpty && isList(function)) StateHeader.Function.InChunks
    else if (function.isInstanceOf[Distinct]) StateHeader.Function.ByValue
    else ""

  /** The types of the notes for chunks: their number, and their bytes. */
  def notes(program: PaneProgram): Seq[DataType] =
    if (program.functions.exists(isList)) Seq(IntegerType, LongType) else Nil

  /** The kinds of record of accumulators. */
  def families(program: PaneProgram, heads: FamilySpec): Seq[FamilySpec] =
    (heads +: chunksFamily(program, heads).toSeq) ++ DistinctRecords.families(program.functions, heads)

  def chunksFamily(program: PaneProgram, heads: FamilySpec): Option[FamilySpec] =
    Option.when(program.functions.exists(isList)) {
      chunksOf(heads, program.functions.filter(isList).flatMap(_.aggBufferAttributes.map(_.dataType)))
    }

  def chunksOf(heads: FamilySpec, types: Seq[DataType]): FamilySpec = FamilySpec(
    "chunks",
    StructType(heads.key :+ PaneProgram.time("number")),
    StructType(types.zipWithIndex.map { case (t, i) => StructField(s"list$i", t) }),
    RecordOrder.WithinKey
  )

  def tooLarge(
      program: PaneProgram,
      functions: Seq[AggregateFunction],
      rest: UnsafeRow,
      size: Long,
      pane: String
  ): MullionException = {
    val offsets = functions.scanLeft(0)(_ + _.aggBufferAttributes.length)
    val largest = functions.zip(offsets).maxBy { case (f, at) =>
      f.aggBufferAttributes.zipWithIndex.map { case (a, i) =>
        if (a.dataType == BinaryType && !rest.isNullAt(at + i)) rest.getLong(at + i).toInt.toLong else 0L
      }.sum + (if (f.isInstanceOf[Distinct]) Math.max(0L, Distinct.recordedBytes(rest, at)) else 0L)
    }
    val isInRecords = largest._1.isInstanceOf[Distinct] && !mergesPanes(program.rules)
    program.limit.tooLarge(size, pane, s"aggregates, most of it in ${largest._1.sql}", isInRecords)
  }

  /** True if a task merges the contents of several records, which reads all of their distinct values. */
  private def mergesPanes(rules: PaneRules): Boolean = rules match {
    case aligned: AlignedRules             => aligned.knowsKeys
    case _: CustomRules | _: NumberedRules => false
    case _                                 => true
  }

  /** Keys with a number after them. */
  private final class Numbered(key: StructType) {
    private val number = new GenericInternalRow(1)
    private val both = new JoinedRow()
    private val projection = UnsafeProjection.create(
      key.zipWithIndex.map { case (f, i) => BoundReference(i, f.dataType, nullable = true) } :+
        BoundReference(key.length, LongType, nullable = false)
    )

    def apply(key: UnsafeRow, at: Long): UnsafeRow = {
      number.update(0, at)
      projection(both(key, number))
    }
  }
}
