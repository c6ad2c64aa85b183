package org.apache.spark.sql.mullion.operator.engine.accumulators

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate
import org.apache.spark.sql.mullion.expressions.rows.{OneOfTwo, SumOf, WithoutNulls}
import org.apache.spark.sql.types.{DataType, LongType, TimestampType}
import org.apache.spark.unsafe.Platform

/** Merges accumulators of non-null longs: counts, sums, minima and maxima.
  *
  * Spark's code checks null of both for each buffer, and marks each as not null when it writes it: a read, change and
  * write of a word of null bits per buffer. Overlapping windows merge more often than rows arrive.
  *
  * Buffers with the same merge function are processed in one loop without branches. Sums come first, and are written
  * before an overflow is detected: as longs wrap, the addition can be undone. Methods are small enough to be inlined.
  *
  * @param steps
  *   the merge function of each buffer
  * @param offset
  *   the first buffer's index in the rows to add
  */
private[accumulators] final class LongMerge private (steps: Array[Byte], offset: Int) {
  import LongMerge._

  // The buffers, as bits.
  private val sums = those(steps, Sum)
  private val lesser = those(steps, Lesser)
  private val greater = those(steps, Greater)
  private val valid = bits(steps.length)
  private val added = valid << offset

  /** Adds the buffers of a row to those of another. Returns false, with nothing changed, if one is null or a sum
    * overflows.
    */
  def apply(work: UnsafeRow, row: UnsafeRow): Boolean = {
    val to = work.getBaseObject
    val nulls = work.getBaseOffset
    val at = nulls + bitsOf(work)
    merge(to, at, to, nulls, at, row.getBaseObject, row.getBaseOffset, bitsOf(row))
  }

  /** Adds those of several rows, older first, until one cannot be added. Returns the number added.
    *
    * @param rows
    *   a row that points to the first of them; they are consecutive and of equal size
    */
  def all(work: UnsafeRow, rows: UnsafeRow, count: Int): Int = {
    val to = work.getBaseObject
    val nulls = work.getBaseOffset
    val at = nulls + bitsOf(work)
    val from = rows.getBaseObject
    val bits = bitsOf(rows)
    val bytes = rows.getSizeInBytes
    var row = rows.getBaseOffset
    var i = 0
    while (i < count && merge(to, at, to, nulls, at, from, row, bits)) {
      row += bytes
      i += 1
    }
    i
  }

  /** Writes the sum of two rows, which stay unchanged, to `to`. Returns whether it could; if not, the content of `to`
    * is undefined.
    *
    * @param to
    *   of the same number of columns as `one`
    */
  def sum(to: UnsafeRow, one: UnsafeRow, row: UnsafeRow): Boolean =
    // Other columns would need a copy.
    one.numFields == steps.length && to.getSizeInBytes == one.getSizeInBytes && {
      val bits = bitsOf(one)
      val nulls = one.getBaseOffset
      val room = to.getBaseObject
      val at = to.getBaseOffset + bits
      val from = row.getBaseObject
      val second = row.getBaseOffset
      merge(room, at, one.getBaseObject, nulls, nulls + bits, from, second, bitsOf(row)) && {
        Platform.putLong(room, to.getBaseOffset, 0L)
        true
      }
    }

  private def bitsOf(row: UnsafeRow): Int = UnsafeRow.calculateBitSetWidthInBytes(row.numFields)

  private def merge(
      to: AnyRef,
      at: Long,
      one: AnyRef,
      nulls: Long,
      first: Long,
      from: AnyRef,
      row: Long,
      bits: Int
  ): Boolean =
    ((Platform.getLong(one, nulls) & valid) | (Platform.getLong(from, row) & added)) == 0L && {
      val second = row + bits + 8L * offset
      if (add(to, at, one, first, from, second)) {
        choose(to, at, one, first, from, second)
        true
      } else {
        takeBack(to, at, from, second)
        false
      }
    }

  /** True if no sum overflows. Otherwise they are written too, wrapped. */
  private def add(to: AnyRef, at: Long, one: AnyRef, first: Long, from: AnyRef, second: Long): Boolean = {
    var beyond = 0L
    var remaining = sums
    while (remaining != 0L) {
      val place = placeOf(remaining)
      remaining &= remaining - 1
      val a = Platform.getLong(one, first + place)
      val b = Platform.getLong(from, second + place)
      val sum = a + b
      beyond |= (a ^ sum) & (b ^ sum)
      Platform.putLong(to, at + place, sum)
    }
    beyond >= 0L
  }

  private def choose(to: AnyRef, at: Long, one: AnyRef, first: Long, from: AnyRef, second: Long): Unit = {
    var remaining = lesser
    while (remaining != 0L) {
      val place = placeOf(remaining)
      remaining &= remaining - 1
      val a = Platform.getLong(one, first + place)
      val b = Platform.getLong(from, second + place)
      Platform.putLong(to, at + place, Math.min(a, b))
    }
    remaining = greater
    while (remaining != 0L) {
      val place = placeOf(remaining)
      remaining &= remaining - 1
      val a = Platform.getLong(one, first + place)
      val b = Platform.getLong(from, second + place)
      Platform.putLong(to, at + place, Math.max(a, b))
    }
  }

  private def takeBack(to: AnyRef, at: Long, from: AnyRef, second: Long): Unit = {
    var remaining = sums
    while (remaining != 0L) {
      val place = placeOf(remaining)
      remaining &= remaining - 1
      Platform.putLong(to, at + place, Platform.getLong(to, at + place) - Platform.getLong(from, second + place))
    }
  }
}

private[accumulators] object LongMerge {
  private final val Sum: Byte = 0
  private final val Lesser: Byte = 1
  private final val Greater: Byte = 2

  // The null bits must fit into one word.
  private final val InOneWord = 64

  /** For some functions, if all their buffers are longs with a supported merge.
    *
    * @param offset
    *   the first buffer's index in the rows to add
    */
  def of(functions: Seq[DeclarativeAggregate], offset: Int): Option[LongMerge] = {
    val steps = functions.flatMap(function => function.aggBufferAttributes.indices.map(stepOf(function, _)))
    Option.when(steps.nonEmpty && steps.forall(_.isDefined) && offset + steps.length <= InOneWord)(
      new LongMerge(steps.flatten.toArray, offset)
    )
  }

  /** The merge function of a buffer, from Spark's own expression for values that are not null. */
  private def stepOf(function: DeclarativeAggregate, buffer: Int): Option[Byte] = {
    val (remaining, right) = (function.aggBufferAttributes(buffer), function.inputAggBufferAttributes(buffer))
    val merge = function.mergeExpressions(buffer).transform { case a: AttributeReference => a.withNullability(false) }
    def isOfBoth(one: Expression, other: Expression) = isThat(one, remaining) && isThat(other, right)
    WithoutNulls.simplified(merge) match {
      case SumOf(one, other, _) if isOfBoth(one, other)                                                   => Some(Sum)
      case OneOfTwo(one, other, _: Least) if isOfBoth(one, other) && isComparedAsLong(remaining.dataType) =>
        Some(Lesser)
      case OneOfTwo(one, other, _: Greatest) if isOfBoth(one, other) && isComparedAsLong(remaining.dataType) =>
        Some(Greater)
      case _ => None
    }
  }

  private def isThat(expression: Expression, buffer: Attribute) = expression match {
    case a: AttributeReference => a.exprId == buffer.exprId
    case _                     => false
  }

  private def those(steps: Array[Byte], step: Byte): Long =
    steps.indices.filter(steps(_) == step).foldLeft(0L)((those, i) => those | 1L << i)

  /** The byte offset of the first of some buffers, relative to the first of all. */
  private def placeOf(buffers: Long): Long = 8L * java.lang.Long.numberOfTrailingZeros(buffers)

  private def isComparedAsLong(kind: DataType) = kind == LongType || kind == TimestampType

  private def bits(columns: Int): Long = if (columns == InOneWord) -1L else (1L << columns) - 1
}
