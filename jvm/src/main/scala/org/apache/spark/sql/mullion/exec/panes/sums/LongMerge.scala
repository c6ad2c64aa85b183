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
  * @param steps
  *   what is done to each buffer
  * @param offset
  *   where the buffers of the row to add start
  */
private[sums] final class LongMerge private (steps: Array[Byte], offset: Int) {
  import LongMerge._

  private val sums = new Array[Long](steps.length)
  private val held = bits(steps.length)
  private val added = held << offset

  /** Adds the buffers of a row to those of another. If one is null, or a sum is beyond a long, nothing is done: whether
    * something was.
    */
  def apply(work: UnsafeRow, row: UnsafeRow): Boolean = {
    val (to, from) = (work.getBaseObject, row.getBaseObject)
    val (workAt, rowAt) = (work.getBaseOffset, row.getBaseOffset)
    ((Platform.getLong(to, workAt) & held) | (Platform.getLong(from, rowAt) & added)) == 0L && {
      val first = workAt + UnsafeRow.calculateBitSetWidthInBytes(work.numFields)
      val second = rowAt + UnsafeRow.calculateBitSetWidthInBytes(row.numFields) + 8L * offset
      add(to, first, from, second) && {
        var i = 0
        while (i < sums.length) { Platform.putLong(to, first + 8L * i, sums(i)); i += 1 }
        true
      }
    }
  }

  private def add(to: AnyRef, first: Long, from: AnyRef, second: Long): Boolean = {
    var isLong = true
    var i = 0
    while (isLong && i < sums.length) {
      val one = Platform.getLong(to, first + 8L * i)
      val other = Platform.getLong(from, second + 8L * i)
      steps(i) match {
        case Sum =>
          val sum = one + other
          sums(i) = sum
          isLong = ((one ^ sum) & (other ^ sum)) >= 0L
        case Lesser => sums(i) = Math.min(one, other)
        case _      => sums(i) = Math.max(one, other)
      }
      i += 1
    }
    isLong
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

  private def isComparedAsLong(kind: DataType) = kind == LongType || kind == TimestampType

  private def bits(columns: Int): Long = if (columns == InOneWord) -1L else (1L << columns) - 1
}
