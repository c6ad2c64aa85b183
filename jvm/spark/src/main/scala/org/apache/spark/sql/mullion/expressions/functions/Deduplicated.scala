package org.apache.spark.sql.mullion.expressions.functions

import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

/** Aggregate functions over the rows of a pane without duplicates: of rows with one id the first counts. It stores a
  * row per id, and runs the functions over these when the pane fires:
  *
  * {{{
  *   rows          (7, €5)  (8, €1)  (7, €5)        a batch later, or from a merged session: (8, €1)
  *   id -> row     7 -> €5, 8 -> €1
  *   fires         sum 6
  * }}}
  *
  * Two accumulators are therefore merged by their ids: those of slices of overlapping windows, or of merging sessions.
  * A running sum could not be corrected afterwards.
  *
  * @param columns
  *   the columns of a row that the functions and their filters read
  * @param batch
  *   the number of a row's batch, and `number` its order in it: of rows with one id the first counts
  * @param filters
  *   for each function the condition of its FILTER clause, or a literal `true`
  * @param inputs
  *   the columns, with the ids in functions and filters
  */
case class Deduplicated(
    ids: Seq[Expression],
    columns: Seq[Expression],
    batch: Expression,
    number: Expression,
    functions: Seq[AggregateFunction],
    filters: Seq[Expression],
    inputs: Seq[Attribute],
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0
) extends TypedImperativeAggregate[RowsById] {

  override def children: Seq[Expression] = ids ++ columns ++ Seq(batch, number)

  override def nullable: Boolean = false

  override lazy val dataType: DataType = StructType(functions.zipWithIndex.map { case (function, i) =>
    StructField(s"result$i", function.dataType, function.nullable)
  })

  override def prettyName: String = "deduplicated"

  override def sql: String = functions.map(_.sql).mkString(", ")

  @transient private lazy val toId = UnsafeProjection.create(ids)

  @transient private lazy val toRow = UnsafeProjection.create(columns)

  @transient private lazy val evaluation = new EvaluatedRows(functions, filters, inputs)

  override def createAggregationBuffer(): RowsById = new RowsById

  override def update(rows: RowsById, input: InternalRow): RowsById = {
    val batchOf = batch.eval(input).asInstanceOf[Long]
    val place = number.eval(input).asInstanceOf[Long]
    val id = toId(input)
    if (rows.isNews(id, batchOf, place)) rows.put(id.copy(), batchOf, place, toRow(input).copy())
    rows
  }

  override def merge(rows: RowsById, other: RowsById): RowsById = {
    rows.addAll(other)
    rows
  }

  override def eval(rows: RowsById): Any = evaluation(rows.inOrder)

  override def serialize(rows: RowsById): Array[Byte] = rows.toBytes

  override def deserialize(bytes: Array[Byte]): RowsById = RowsById.fromBytes(ids.length, columns.length, bytes)

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)

  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): Deduplicated = {
    val (newIds, rest) = newChildren.splitAt(ids.length)
    copy(ids = newIds, columns = rest.dropRight(2), batch = rest(rest.length - 2), number = rest.last)
  }
}

object Deduplicated {

  /** @param functions
    *   over columns of the input
    */
  def apply(
      ids: Seq[Attribute],
      batch: Attribute,
      number: Attribute,
      functions: Seq[AggregateFunction],
      filters: Seq[Expression]
  ): Deduplicated = {
    val columns = (functions ++ filters).flatMap(_.references.toSeq).distinctBy(_.exprId)
    // Rows are read from state, where any column may be null.
    val inputs = columns.map(c => AttributeReference(c.name, c.dataType)())
    val inputOf = columns.map(_.exprId).zip(inputs).toMap
    def over[E <: Expression](e: E): E =
      e.transform { case a: Attribute if inputOf.contains(a.exprId) => inputOf(a.exprId) }.asInstanceOf[E]
    Deduplicated(ids, columns, batch, number, functions.map(over(_)), filters.map(over(_)), inputs)
  }
}

/** Rows by their ids, each with its order of arrival. */
final class RowsById {
  import RowsById.Held

  private val byId = new java.util.HashMap[UnsafeRow, Held]()

  /** True if a row would count: its id is new, or only a later row has it. */
  def isNews(id: UnsafeRow, batch: Long, number: Long): Boolean = {
    val existing = byId.get(id)
    (existing eq null) || batch < existing.batch || (batch == existing.batch && number < existing.number)
  }

  def put(id: UnsafeRow, batch: Long, number: Long, row: UnsafeRow): Unit = {
    byId.put(id, new Held(batch, number, row))
    ()
  }

  def addAll(other: RowsById): Unit = other.byId.forEach { (id, of) =>
    if (isNews(id, of.batch, of.number)) put(id, of.batch, of.number, of.row)
  }

  /** The rows that count, in order of arrival. */
  def inOrder: Iterator[UnsafeRow] = {
    val rows = byId.values.toArray(Array.empty[Held])
    java.util.Arrays.sort(rows, Held.order)
    rows.iterator.map(_.row)
  }

  def toBytes: Array[Byte] = {
    var bytes = 4
    byId.forEach((id, of) => bytes += 24 + id.getSizeInBytes + of.row.getSizeInBytes)
    val buffer = ByteBuffer.allocate(bytes).putInt(byId.size)
    byId.forEach { (id, of) =>
      buffer.putLong(of.batch).putLong(of.number)
      put(buffer, id)
      put(buffer, of.row)
    }
    buffer.array
  }

  private def put(buffer: ByteBuffer, row: UnsafeRow): Unit = {
    buffer.putInt(row.getSizeInBytes)
    row.writeToMemory(buffer.array, Platform.BYTE_ARRAY_OFFSET + buffer.position())
    buffer.position(buffer.position() + row.getSizeInBytes)
    ()
  }
}

object RowsById {
  private final class Held(val batch: Long, val number: Long, val row: UnsafeRow)

  private object Held {
    val order: java.util.Comparator[Held] = (a, b) => {
      val byBatch = java.lang.Long.compare(a.batch, b.batch)
      if (byBatch != 0) byBatch else java.lang.Long.compare(a.number, b.number)
    }
  }

  def fromBytes(idWidth: Int, width: Int, bytes: Array[Byte]): RowsById = {
    val rows = new RowsById
    val buffer = ByteBuffer.wrap(bytes)
    def row(columns: Int): UnsafeRow = {
      val size = buffer.getInt
      val read = new UnsafeRow(columns)
      // A row must be 8-byte aligned.
      read.pointTo(java.util.Arrays.copyOfRange(bytes, buffer.position(), buffer.position() + size), size)
      buffer.position(buffer.position() + size)
      read
    }
    var remaining = buffer.getInt
    while (remaining > 0) {
      val (batch, number) = (buffer.getLong, buffer.getLong)
      val id = row(idWidth)
      rows.put(id, batch, number, row(width))
      remaining -= 1
    }
    rows
  }
}
