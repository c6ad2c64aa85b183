package org.apache.spark.sql.mullion.expressions.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._

/** Adds rows of the input to accumulators at work (see `Accumulators`), like Spark's own aggregates before a shuffle.
  *
  * @param filters
  *   for each function the condition of its FILTER clause, or a literal `true`
  */
final class RowUpdate(
    functions: Seq[AggregateFunction],
    filters: Seq[Expression],
    input: Seq[Attribute]
) {
  private val offsets = functions.scanLeft(0)(_ + _.aggBufferAttributes.length)

  private val declarative = {
    val updates = functions.zip(filters).flatMap {
      case (d: DeclarativeAggregate, Literal.TrueLiteral) => d.updateExpressions
      case (d: DeclarativeAggregate, filter)              =>
        d.updateExpressions.zip(d.aggBufferAttributes).map { case (update, kept) => If(filter, update, kept) }
      case (other, _) => Seq.fill(other.aggBufferAttributes.length)(NoOp)
    }
    MutableProjection.create(updates, functions.flatMap(_.aggBufferAttributes) ++ input)
  }

  private val imperative: Array[(ImperativeAggregate, BasePredicate)] = functions
    .zip(filters)
    .zip(offsets)
    .collect { case ((f: ImperativeAggregate, filter), at) =>
      val bound = BindReferences.bindReference(f: Expression, input).asInstanceOf[ImperativeAggregate]
      bound.withNewMutableAggBufferOffset(at) -> Predicate.create(filter, input)
    }
    .toArray

  private val both = new JoinedRow()

  def apply(work: InternalRow, row: InternalRow): Unit = {
    declarative.target(work)(both(work, row))
    var i = 0
    while (i < imperative.length) {
      val (function, filter) = imperative(i)
      if (filter.eval(row)) function.update(work, row)
      i += 1
    }
  }
}
