package org.apache.spark.sql.mullion.operator.engine.accumulators

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._

/** Merges the buffers of functions in a row into those in another row.
  *
  * {{{
  *   into   [before ...]  [buffers ...]  [after ...]      changed in place
  *   row    [...]         [buffers ...]                   from `offset` on
  * }}}
  *
  * @param before
  *   the columns before the buffers of the row that is changed
  * @param after
  *   the columns behind them
  * @param input
  *   the columns of the row that is merged
  * @param inPlace
  *   whether the changed row may be an UnsafeRow with all of its buffers in words
  */
private[accumulators] final class BufferMerge(
    functions: Seq[AggregateFunction],
    before: Seq[Attribute],
    after: Seq[Attribute],
    input: Seq[Attribute],
    offset: Int,
    inPlace: Boolean
) {
  private val imperative: Array[ImperativeAggregate] = functions
    .zip(functions.scanLeft(0)(_ + _.aggBufferAttributes.length))
    .collect { case (f: ImperativeAggregate, at) =>
      f.withNewMutableAggBufferOffset(before.length + at).withNewInputAggBufferOffset(offset + at)
    }
    .toArray

  // Null if not all are longs: an Option would be unpacked for each row.
  private val longs =
    Option
      .when(inPlace)(functions.collect { case d: DeclarativeAggregate => d })
      .flatMap(LongMerge.of(_, offset))
      .orNull

  // Rarely needed if all are longs, so its code is generated lazily.
  private lazy val declarative = {
    val merges = functions.flatMap {
      case d: DeclarativeAggregate => d.mergeExpressions
      case other                   => Seq.fill(other.aggBufferAttributes.length)(NoOp)
    }
    MutableProjection.create(
      before.map(_ => NoOp) ++ merges,
      before ++ functions.flatMap(_.aggBufferAttributes) ++ after ++ input
    )
  }
  private val both = new JoinedNumbers()

  /** Initializes the buffers of imperative functions. */
  def initialize(into: InternalRow): Unit = imperative.foreach(_.initialize(into))

  def apply(into: InternalRow, row: InternalRow): Unit = if (!mergesLongs(into, row)) {
    declarative.target(into)(both(into, row))
    var i = 0
    while (i < imperative.length) { imperative(i).merge(into, row); i += 1 }
  }

  private def mergesLongs(into: InternalRow, row: InternalRow): Boolean =
    (longs ne null) && into.isInstanceOf[UnsafeRow] && row.isInstanceOf[UnsafeRow] &&
      longs(into.asInstanceOf[UnsafeRow], row.asInstanceOf[UnsafeRow])

  /** The number of the rows that it has added: all, if all are longs. */
  def mergesLongs(into: UnsafeRow, rows: UnsafeRow, count: Int): Int =
    if (longs eq null) 0 else longs.all(into, rows, count)

  /** True if it has written the sum of two rows to another, as it does if all are longs. */
  def sumsLongs(to: UnsafeRow, one: UnsafeRow, row: UnsafeRow): Boolean =
    (longs ne null) && longs.sum(to, one, row)
}
