package org.apache.spark.sql.mullion.operator.engine.accumulators

import java.util.HashMap

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.mullion.expressions.rows.{MixedRow, Projections}
import org.apache.spark.sql.mullion.state.record.KeyOrder
import org.apache.spark.unsafe.array.ByteArrayMethods

/** Merges the partial rows of each group into one, for rows sorted by a number of their key (see [[KeyOrder]]).
  *
  * {{{
  *   rows     (k, 10:00, 3)  (k, 10:01, 1)  (k, 10:00, 4)  |  (m, 10:00, 2)
  *   output   (k, 10:00, 7)  (k, 10:01, 1)                 |  (m, 10:00, 2)
  * }}}
  *
  * The groups of a number are kept until the next number, so at most the rows of one key of a batch are in memory. Most
  * groups have one row, which is returned as it is.
  *
  * @param keys
  *   the columns of the order, which are consecutive in a row
  * @param grouping
  *   the columns of a group, the first ones of a row
  * @param partial
  *   the columns of a row: after the grouping the buffers of the functions
  */
private[operator] final class MergedGroups(
    rows: Iterator[InternalRow],
    keys: Seq[Attribute],
    grouping: Seq[Attribute],
    partial: Seq[Attribute],
    functions: Seq[AggregateFunction]
) extends Iterator[InternalRow] {
  import MergedGroups._

  private val columns = MixedRow.columns(partial.map(_.dataType), functions, grouping.length)

  private val groupOf = new FirstColumns(grouping)
  private val keyOf = Projections(grouping, partial)
  private val numberOf = new KeyOrder(keys.map(_.dataType), partial.indexWhere(_.exprId == keys.head.exprId))

  private lazy val merge = new BufferMerge(functions, grouping, Nil, partial, grouping.length, inPlace = false)

  // The groups of the current number, and the last one that a row belonged to.
  private var open = new ArrayBuffer[MixedRow]()
  private var last: MixedRow = _
  private var number = 0L
  // The same by their keys, if they are many; null before.
  private var byKey: HashMap[UnsafeRow, MixedRow] = _

  // The complete groups, and how many of them have been returned.
  private var complete = new ArrayBuffer[MixedRow]()
  private var returned = 0

  override def hasNext: Boolean = {
    while (returned == complete.length && rows.hasNext) add(rows.next().asInstanceOf[UnsafeRow])
    if (returned == complete.length) finish()
    returned < complete.length
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("all groups have been returned")
    returned += 1
    complete(returned - 1).toUnsafe
  }

  private def add(row: UnsafeRow): Unit =
    if ((last ne null) && groupOf.areEqual(last.fixed, row)) merge(last, row)
    else {
      val next = numberOf(row)
      if (next != number && open.nonEmpty) finish()
      number = next
      last = find(row)
      if (last ne null) merge(last, row)
      else {
        last = columns.over(row.copy())
        open += last
        if (byKey ne null) byKey.put(keyOf(row).copy(), last)
      }
    }

  /** The group of a row with the current number, or null. */
  private def find(row: UnsafeRow): MixedRow =
    if (open.length <= FewGroups) {
      var i = open.length - 1
      while (i >= 0 && !groupOf.areEqual(open(i).fixed, row)) i -= 1
      if (i < 0) null else open(i)
    } else {
      if (byKey eq null) {
        byKey = new HashMap()
        open.foreach(group => byKey.put(keyOf(group.fixed).copy(), group))
      }
      byKey.get(keyOf(row))
    }

  /** Completes the groups of the current number. */
  private def finish(): Unit = {
    val free = complete
    free.clear()
    complete = open
    returned = 0
    open = free
    last = null
    byKey = null
  }
}

private object MergedGroups {

  /** A list of so many groups is searched faster than a table. */
  private final val FewGroups = 8

  /** The first columns of a row, which are compared by their bytes. */
  private final class FirstColumns(of: Seq[Attribute]) {
    private val isFixed = of.map(column => UnsafeRow.isFixedLength(column.dataType)).toArray

    def areEqual(one: UnsafeRow, other: UnsafeRow): Boolean = {
      var i = 0
      while (i < isFixed.length && areEqual(one, other, i)) i += 1
      i == isFixed.length
    }

    private def areEqual(one: UnsafeRow, other: UnsafeRow, i: Int): Boolean =
      if (one.isNullAt(i) || other.isNullAt(i)) one.isNullAt(i) && other.isNullAt(i)
      else if (isFixed(i)) one.getLong(i) == other.getLong(i)
      else {
        val (place, otherPlace) = (one.getLong(i), other.getLong(i))
        place.toInt == otherPlace.toInt && ByteArrayMethods.arrayEquals(
          one.getBaseObject,
          one.getBaseOffset + (place >>> 32),
          other.getBaseObject,
          other.getBaseOffset + (otherPlace >>> 32),
          place.toInt.toLong
        )
      }
  }
}
