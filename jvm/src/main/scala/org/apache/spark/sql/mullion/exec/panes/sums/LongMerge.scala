package org.apache.spark.sql.mullion.exec.panes.sums

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate
import org.apache.spark.sql.mullion.expressions.{OneOfTwo, SumOf, WithoutNulls}
import org.apache.spark.sql.types.{DataType, LongType, TimestampType}
import org.apache.spark.unsafe.Platform

/** Merges accumulators of longs where none of them is null: counts, sums, the least and the greatest.
  *
  * Spark's code asks of each buffer of both whether it is null, and says of each that it is not when it writes it: a
  * word of null bits that is read, changed and written once for each buffer. Windows that overlap merge more often than
  * rows come.
  *
  * Buffers that are merged alike are gone through together, so that nothing is chosen at each. Sums come first, and are
  * written before it is known whether all are longs: as longs wrap, what was added can be taken away again. What is
  * called for each row is in parts that are small enough for the JVM to inline.
  *
  * @param steps
  *   what is done to each buffer
  * @param offset
  *   where the buffers of the rows to add start
  */
private[sums] final class LongMerge private (steps: Array[Byte], offset: Int) {
  import LongMerge._

  // Which buffers, by their bits.
  private val sums = those(steps, Sum)
  private val lesser = those(steps, Lesser)
  private val greater = those(steps, Greater)
  private val held = bits(steps.length)
  private val added = held << offset

  /** Adds the buffers of a row to those of another. If one is null, or a sum is beyond a long, nothing is done: whether
    * something was.
    */
  def apply(work: UnsafeRow, row: UnsafeRow): Boolean = {
    val to = work.getBaseObject
    val nulls = work.getBaseOffset
    val at = nulls + bitsOf(work)
    merge(to, at, to, nulls, at, row.getBaseObject, row.getBaseOffset, bitsOf(row))
  }

  /** Adds those of several rows, older first, until one cannot be added: how many were.
    *
    * @param rows
    *   a row that stands on the first of them; they lie one behind the other, each of as many bytes
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

  /** Has `to` hold the sum of a row and another, which stay as they are: whether it does. If not, what it holds is
    * neither.
    *
    * @param to
    *   of as many columns as `one`
    */
  def sum(to: UnsafeRow, one: UnsafeRow, row: UnsafeRow): Boolean =
    // Other columns would have to be copied.
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
    ((Platform.getLong(one, nulls) & held) | (Platform.getLong(from, row) & added)) == 0L && {
      val second = row + bits + 8L * offset
      if (add(to, at, one, first, from, second)) {
        choose(to, at, one, first, from, second)
        true
      } else {
        takeBack(to, at, from, second)
        false
      }
    }

  /** True if all sums are longs. Else they are written as well, and have wrapped. */
  private def add(to: AnyRef, at: Long, one: AnyRef, first: Long, from: AnyRef, second: Long): Boolean = {
    var beyond = 0L
    var left = sums
    while (left != 0L) {
      val place = placeOf(left)
      left &= left - 1
      val a = Platform.getLong(one, first + place)
      val b = Platform.getLong(from, second + place)
      val sum = a + b
      beyond |= (a ^ sum) & (b ^ sum)
      Platform.putLong(to, at + place, sum)
    }
    beyond >= 0L
  }

  private def choose(to: AnyRef, at: Long, one: AnyRef, first: Long, from: AnyRef, second: Long): Unit = {
    var left = lesser
    while (left != 0L) {
      val place = placeOf(left)
      left &= left - 1
      val a = Platform.getLong(one, first + place)
      val b = Platform.getLong(from, second + place)
      Platform.putLong(to, at + place, Math.min(a, b))
    }
    left = greater
    while (left != 0L) {
      val place = placeOf(left)
      left &= left - 1
      val a = Platform.getLong(one, first + place)
      val b = Platform.getLong(from, second + place)
      Platform.putLong(to, at + place, Math.max(a, b))
    }
  }

  private def takeBack(to: AnyRef, at: Long, from: AnyRef, second: Long): Unit = {
    var left = sums
    while (left != 0L) {
      val place = placeOf(left)
      left &= left - 1
      Platform.putLong(to, at + place, Platform.getLong(to, at + place) - Platform.getLong(from, second + place))
    }
  }
}

private[sums] object LongMerge {
  private final val Sum: Byte = 0
  private final val Lesser: Byte = 1
  private final val Greater: Byte = 2

  // Null bits of as many columns are in one word.
  private final val InOneWord = 64

  /** That of some functions, if all their buffers are longs that merge so.
    *
    * @param offset
    *   where the buffers of rows to add start
    */
  def of(functions: Seq[DeclarativeAggregate], offset: Int): Option[LongMerge] = {
    val steps = functions.flatMap(function => function.aggBufferAttributes.indices.map(stepOf(function, _)))
    Option.when(steps.nonEmpty && steps.forall(_.isDefined) && offset + steps.length <= InOneWord)(
      new LongMerge(steps.flatten.toArray, offset)
    )
  }

  /** What merges a buffer, by Spark's own expression for it over values that are not null. */
  private def stepOf(function: DeclarativeAggregate, buffer: Int): Option[Byte] = {
    val (left, right) = (function.aggBufferAttributes(buffer), function.inputAggBufferAttributes(buffer))
    val merge = function.mergeExpressions(buffer).transform { case a: AttributeReference => a.withNullability(false) }
    def isOfBoth(one: Expression, other: Expression) = isThat(one, left) && isThat(other, right)
    WithoutNulls.simplified(merge) match {
      case SumOf(one, other, _) if isOfBoth(one, other)                                                 => Some(Sum)
      case OneOfTwo(one, other, _: Least) if isOfBoth(one, other) && isComparedAsLong(left.dataType)    => Some(Lesser)
      case OneOfTwo(one, other, _: Greatest) if isOfBoth(one, other) && isComparedAsLong(left.dataType) =>
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

  /** Where the first of some buffers is, in bytes from the first of all. */
  private def placeOf(buffers: Long): Long = 8L * java.lang.Long.numberOfTrailingZeros(buffers)

  private def isComparedAsLong(kind: DataType) = kind == LongType || kind == TimestampType

  private def bits(columns: Int): Long = if (columns == InOneWord) -1L else (1L << columns) - 1
}
