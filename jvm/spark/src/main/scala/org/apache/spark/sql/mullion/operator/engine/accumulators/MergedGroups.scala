package org.apache.spark.sql.mullion.operator.engine.accumulators

import java.util.{Iterator => JavaIterator, LinkedHashMap}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.mullion.expressions.rows.{MixedRow, Projections}
import org.apache.spark.sql.mullion.state.record.KeyOrder

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
  private val columns = MixedRow.columns(partial.map(_.dataType), functions, grouping.length)

  private val keyOf = Projections(grouping, partial)
  private val numberOf = new KeyOrder(keys.map(_.dataType), partial.indexWhere(_.exprId == keys.head.exprId))

  private lazy val merge = new BufferMerge(functions, grouping, Nil, partial, grouping.length, inPlace = false)

  // The last group, and all of its number if there are several; the key is null before the first row.
  private var key: UnsafeRow = _
  private var group: MixedRow = _
  private var number = 0L
  private var several: LinkedHashMap[UnsafeRow, MixedRow] = _

  // The complete groups: one, or several.
  private var complete: MixedRow = _
  private var completeOnes: JavaIterator[MixedRow] = _

  override def hasNext: Boolean = {
    while ((complete eq null) && (completeOnes eq null) && rows.hasNext) add(rows.next().asInstanceOf[UnsafeRow])
    if ((complete eq null) && (completeOnes eq null)) release()
    (complete ne null) || (completeOnes ne null)
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("all groups have been returned")
    if (complete ne null) {
      val row = complete
      complete = null
      row.toUnsafe
    } else {
      val row = completeOnes.next()
      if (!completeOnes.hasNext) completeOnes = null
      row.toUnsafe
    }
  }

  private def add(row: UnsafeRow): Unit = {
    val of = keyOf(row)
    if ((key ne null) && key == of) merge(group, row)
    else {
      val next = numberOf(row)
      if (key eq null) begin(of, row, next)
      else if (next != number) {
        release()
        begin(of, row, next)
      } else {
        if (several eq null) {
          several = new LinkedHashMap[UnsafeRow, MixedRow]()
          several.put(key, group)
        }
        key = of.copy()
        group = several.get(key)
        if (group ne null) merge(group, row)
        else {
          group = copied(row)
          several.put(key, group)
        }
      }
    }
  }

  private def begin(of: UnsafeRow, row: UnsafeRow, next: Long): Unit = {
    key = of.copy()
    group = copied(row)
    number = next
  }

  private def copied(row: UnsafeRow) = columns.over(row.copy())

  private def release(): Unit = if (key ne null) {
    if (several eq null) complete = group else completeOnes = several.values.iterator
    key = null
    group = null
    several = null
  }
}
