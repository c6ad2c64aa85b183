package org.apache.spark.sql.mullion.operator.engine.output

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.rows.Projections
import org.apache.spark.sql.mullion.state.record.RecordBytes
import org.apache.spark.sql.types.{BinaryType, DataType, DecimalType, LongType, StringType, TimestampType}
import org.apache.spark.unsafe.Platform

/** An output row that is overwritten for the next firing. All parts that differ between firings have the same width:
  * the keys, the window, the number of the firing, and results.
  *
  * {{{
  *   nulls | key | window: where | pane: where | n | total | text of key | start, end | firing, seq
  *     x      x                                  x     x          x          x    x             x     <- overwritten
  * }}}
  *
  * Spark's code creates the first such row, which is copied, so its layout is that of Spark. Creating each row with
  * that code checks for each column which of four rows has it, which took 5 % of the tasks' time for overlapping
  * windows. A key whose texts have other lengths needs another such row ([[fits]]): consecutive panes often have one
  * key, and identifiers often have one length.
  *
  * @param keysAt
  *   the columns of the keys' rows that are keys
  * @param varied
  *   those of the keys, by their number, that have no fixed width
  * @param buffersAt
  *   for each result its column of the accumulator, or [[FiringRow.Computed]]
  * @param computed
  *   computes the other results, in their order, from an accumulator
  * @param columns
  *   the number of output columns
  */
private[output] final class FiringRow private (
    keysAt: Array[Int],
    varied: Array[Int],
    buffersAt: Array[Int],
    computed: => Option[UnsafeProjection],
    columns: Int
) {
  private lazy val computedBy = computed
  private val row = new UnsafeRow(columns)
  private var bytes = Array.emptyByteArray
  private val windowAt = keysAt.length
  private val resultsAt = windowAt + 2
  private val words = Platform.BYTE_ARRAY_OFFSET + UnsafeRow.calculateBitSetWidthInBytes(columns).toLong
  private var start = 0L
  private var seq = 0L
  // The null bits of constant columns.
  private var otherNulls = 0L

  /** Adopts the layout of an output row. */
  def begin(like: UnsafeRow): Unit = {
    if (bytes.length < like.getSizeInBytes) bytes = new Array[Byte](like.getSizeInBytes)
    RecordBytes.copy(like, bytes, 0)
    row.pointTo(bytes, like.getSizeInBytes)
    start = inStruct(windowAt, column = 0)
    seq = inStruct(windowAt + 1, column = 1)
    val nulls = Platform.getLong(bytes, row.getBaseOffset)
    val written = bits(0, keysAt.length) | bits(resultsAt, buffersAt.length)
    otherNulls = nulls & ~written
  }

  /** True if the row can hold a key: the values without a fixed width are as long as its own. */
  def fits(keys: UnsafeRow): Boolean = {
    var i = 0
    while (i < varied.length && lengthIn(keys, keysAt(varied(i))) == lengthIn(row, varied(i))) i += 1
    i == varied.length
  }

  private def lengthIn(row: UnsafeRow, column: Int): Int =
    if (row.isNullAt(column)) FiringRow.Null else row.getLong(column).toInt

  private def inStruct(at: Int, column: Int): Long =
    row.getBaseOffset + (row.getLong(at) >>> 32) + UnsafeRow.calculateBitSetWidthInBytes(2) + 8L * column

  private def bits(from: Int, count: Int): Long = if (count == 0) 0L else (-1L >>> (64 - count)) << from

  /** The row of a firing, overwritten by the next call.
    *
    * @param keys
    *   a row with the keys, which [[fits]]
    * @param work
    *   the accumulator
    */
  def apply(keys: UnsafeRow, windowStart: Long, windowEnd: Long, number: Int, work: UnsafeRow): UnsafeRow = {
    var nulls = otherNulls
    var i = 0
    var next = 0
    while (i < keysAt.length) {
      if (next < varied.length && varied(next) == i) {
        nulls |= overwrite(i, keys, keysAt(i))
        next += 1
      } else nulls |= write(i, keys, keysAt(i))
      i += 1
    }
    val others = if (computedBy.isEmpty) work else computedBy.get(work)
    var other = 0
    i = 0
    while (i < buffersAt.length) {
      val at = buffersAt(i)
      if (at == FiringRow.Computed) {
        nulls |= write(resultsAt + i, others, other)
        other += 1
      } else nulls |= write(resultsAt + i, work, at)
      i += 1
    }
    Platform.putLong(bytes, row.getBaseOffset, nulls)
    Platform.putLong(bytes, start, windowStart)
    Platform.putLong(bytes, start + 8, windowEnd)
    Platform.putInt(bytes, seq, number)
    row
  }

  /** Writes a column's word. Returns its null bit. */
  private def write(column: Int, from: UnsafeRow, at: Int): Long = {
    val isNull = from.isNullAt(at)
    // Spark zeroes the word of a null.
    Platform.putLong(row.getBaseObject, words + 8L * column, if (isNull) 0L else from.getLong(at))
    if (isNull) 1L << column else 0L
  }

  /** Writes the bytes of a column without a fixed width. Returns its null bit. */
  private def overwrite(column: Int, from: UnsafeRow, at: Int): Long =
    if (from.isNullAt(at)) 1L << column
    else {
      val where = from.getLong(at)
      val to = row.getBaseOffset + (row.getLong(column) >>> 32)
      // Spark fills the last word with zeros.
      RecordBytes.copyWords(from.getBaseObject, from.getBaseOffset + (where >>> 32), bytes, to, where.toInt)
      0L
    }
}

private[output] object FiringRow {

  /** A result that is not a buffer. */
  final val Computed = -1

  // The length of a null.
  private final val Null = -1

  // The null bits must fit into one word.
  private val MostColumns = 64

  /** @param keys
    *   of the output
    * @param results
    *   over the columns of an accumulator
    * @param columns
    *   the number of output columns: those after the results are always null
    * @return
    *   none if a result has no fixed width or depends on more than the accumulator, or a key is no plain value
    */
  def of(
      keyLayout: Seq[Attribute],
      keys: Seq[Attribute],
      accumulator: Seq[Attribute],
      results: Seq[Expression],
      columns: Int
  ): Option[FiringRow] = {
    val fields = results.map(Projections.withoutName)
    val all = AttributeSet(accumulator)
    val fixed = keys.forall(key => isPlain(key.dataType)) && fields.forall(f => UnsafeRow.isFixedLength(f.dataType))
    Option.when(columns <= MostColumns && fixed && fields.forall(f => f.deterministic && f.references.subsetOf(all))) {
      val buffers = fields.map {
        case buffer: Attribute if isWord(buffer.dataType) => accumulator.indexWhere(_.exprId == buffer.exprId)
        case _                                            => Computed
      }
      val others = fields.zip(buffers).collect { case (field, Computed) => field }
      new FiringRow(
        keys.map(key => keyLayout.indexWhere(_.exprId == key.exprId)).toArray,
        keys.indices.filterNot(i => UnsafeRow.isFixedLength(keys(i).dataType)).toArray,
        buffers.toArray,
        Option.when(others.nonEmpty)(Projections(others, accumulator)),
        columns
      )
    }
  }

  private def isPlain(kind: DataType) = UnsafeRow.isFixedLength(kind) || (kind match {
    case _: StringType | BinaryType | _: DecimalType => true
    case _                                           => false
  })

  private def isWord(kind: DataType) = kind == LongType || kind == TimestampType
}
