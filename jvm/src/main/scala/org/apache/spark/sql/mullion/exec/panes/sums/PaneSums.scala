package org.apache.spark.sql.mullion.exec.panes.sums

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateFunction, CollectList, ListAgg}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.exec.panes.PaneProgram
import org.apache.spark.sql.mullion.expressions.Deduplicated
import org.apache.spark.sql.mullion.state.header.StateHeader
import org.apache.spark.sql.mullion.state.records.{BorrowedRow, Family, FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types._

import dev.mullion.MullionException

/** Accumulators in state that may grow with every row. Lists that rows are appended to are kept in chunks once they are
  * long, so that a batch writes its own rows, and not again those of all batches before; and what a pane holds in all
  * has a limit.
  *
  * {{{
  *   accumulators  (pane)          -> counts, sums, ..., the end of the lists, [how many chunks, their bytes]
  *   chunks        (pane, number)  -> what comes before it in the lists
  * }}}
  *
  * A list is kept whole where copies of a task run: there a batch may go on from one attempt's records and write over
  * another's.
  *
  * Rows that count once for each id are such a list too: which of them count is found when chunks come together.
  *
  * Other aggregates that grow, such as sets and exact percentiles, are written whole: what they add to a batch is not
  * known until it is added to all that they hold, and chunks would keep what they hold once many times over.
  *
  * @param heads
  *   the records that accumulators stand in
  * @param accumulators
  *   with `PaneSums.notes` as their last notes
  * @param notesAt
  *   where those are
  */
private[exec] final class PaneSums(
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
  // Made at once: making it goes through the row that accumulators at rest are handed out in.
  private val nothing: UnsafeRow = if (chunked) accumulators.empty else new UnsafeRow(0)
  private val countAt = notesAt
  private val bytesAt = notesAt + 1
  private val limit = program.limit.bytes
  private lazy val chunks: Family = partition.family(chunksFamily(program, heads).get)

  private lazy val chunkKey = new Numbered(heads.key)
  private lazy val toChunk = UnsafeProjection.create(lists.toSeq.map(bound))
  private lazy val both = new JoinedRow()

  /** What is left when lists have gone into a chunk: over an accumulator and an empty one. */
  private lazy val toHead = UnsafeProjection.create(accumulators.schema.indices.map { i =>
    if (lists.contains(i)) bound(i + accumulators.schema.length) else bound(i)
  })

  /** An accumulator that holds only lists: over a chunk and an empty one. */
  private lazy val fromChunk = UnsafeProjection.create((0 until accumulators.width).map { i =>
    val at = lists.indexOf(i)
    if (at >= 0) BoundReference(at, accumulators.schema(i).dataType, nullable = true)
    else BoundReference(lists.length + i, accumulators.schema(i).dataType, nullable = true)
  })

  private def bound(i: Int): Expression =
    BoundReference(i, accumulators.schema(i % accumulators.schema.length).dataType, nullable = true)

  /** The form at rest of an accumulator at work, which the caller gives up, as it is to be put under `key`. */
  def store(key: UnsafeRow, work: InternalRow): UnsafeRow = {
    val rest = accumulators.rest(work)
    if (chunked && listBytes(rest) >= ChunkBytes) moved(key, rest) else rest
  }

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
    // Of a column of bytes the row's word says where they are and how many.
    while (i < lists.length) { bytes += rest.getLong(lists(i)).toInt; i += 1 }
    bytes
  }

  /** What a pane holds in all, at work. The accumulator at work stays as it is. */
  def whole(key: UnsafeRow, work: InternalRow): InternalRow =
    if (!chunked || work.getInt(countAt) == 0) work
    else {
      val sum = accumulators.blank()
      val scan = ofKey(key)
      try scan.foreach(chunk => accumulators.merge(sum, fromChunk(both(chunk.value.untilNextCall, nothing))))
      finally scan.close()
      accumulators.merge(sum, accumulators.rest(work.copy()))
      sum
    }

  /** What a pane holds in all, at rest, but for notes. */
  def whole(key: UnsafeRow, rest: UnsafeRow): UnsafeRow =
    if (!chunked || rest.getInt(countAt) == 0) rest else accumulators.rest(whole(key, accumulators.load(rest)))

  /** A borrowed key of a record, for use after `whole`, which may read chunks. */
  def keyThroughout(borrowed: BorrowedRow): UnsafeRow = if (chunked) borrowed.copy() else borrowed.untilNextCall

  /** Removes what stands beside the accumulator of `key`. */
  def drop(key: UnsafeRow): Unit = if (chunked) {
    val scan = ofKey(key)
    val numbered =
      try scan.map(_.key.copy())
      finally scan.close()
    numbered.foreach(chunks.remove)
  }

  /** Removes it from the accumulator at work, too. */
  def clear(key: UnsafeRow, work: InternalRow): Unit = {
    if (chunked && work.getInt(countAt) > 0) {
      drop(key)
      work.setInt(countAt, 0)
      work.setLong(bytesAt, 0L)
    }
    accumulators.clear(work)
  }

  private def ofKey(key: UnsafeRow) = chunks.range(chunkKey(key, 0L).copy(), chunkKey(key, Long.MaxValue))

  def isTooLarge(rest: UnsafeRow): Boolean = sizeOf(rest) > limit

  private def sizeOf(rest: UnsafeRow): Long =
    rest.getSizeInBytes + (if (chunked) rest.getLong(bytesAt) else 0L)

  /** @param pane
    *   what an error calls it
    */
  def tooLarge(rest: UnsafeRow, pane: String): MullionException =
    PaneSums.tooLarge(program, functions, rest, sizeOf(rest), pane)
}

private[exec] object PaneSums {

  /** How long lists become before they go into a chunk: long enough for few records, short enough to be written again
    * with each batch.
    */
  private val ChunkBytes = 64L * 1024

  private def isList(function: AggregateFunction): Boolean = function match {
    case _: CollectList | _: ListAgg | _: Deduplicated => true
    case _                                             => false
  }

  /** How a function's accumulators are kept, where it is not as they are. */
  def words(program: PaneProgram, function: AggregateFunction): String =
    if (program.rows.isEmpty && isList(function)) StateHeader.Function.InChunks else ""

  /** The types of the notes that accumulators have for chunks: how many there are, and how many bytes. */
  def notes(program: PaneProgram): Seq[DataType] =
    if (program.functions.exists(isList)) Seq(IntegerType, LongType) else Nil

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
        if (a.dataType == BinaryType && !rest.isNullAt(at + i)) rest.getLong(at + i).toInt else 0
      }.sum
    }
    program.limit.tooLarge(size, pane, s"aggregates, most of it in ${largest._1.sql}")
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
