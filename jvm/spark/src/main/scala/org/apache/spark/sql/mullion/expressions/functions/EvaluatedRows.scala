package org.apache.spark.sql.mullion.expressions.functions

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.mullion.expressions.rows.RowUpdate
import org.apache.spark.sql.types.DataType

/** Aggregate functions over rows outside of Spark's aggregates: each row is added to an accumulator, whose results are
  * a struct.
  *
  * @param filters
  *   for each function the condition of its FILTER clause, or a literal `true`
  * @param inputs
  *   the columns of a row
  */
private[functions] final class EvaluatedRows(
    functions: Seq[AggregateFunction],
    filters: Seq[Expression],
    inputs: Seq[Attribute]
) {
  private val offsets = functions.scanLeft(0)(_ + _.aggBufferAttributes.length)
  private val buffers = functions.flatMap(_.aggBufferAttributes)
  private val update = new RowUpdate(functions, filters, inputs)

  private val initial = MutableProjection.create(
    functions.flatMap {
      case d: DeclarativeAggregate => d.initialValues
      case other                   => Seq.fill(other.aggBufferAttributes.length)(NoOp)
    },
    Nil
  )

  private val imperative: Seq[(ImperativeAggregate, Int)] =
    functions.zip(offsets).zipWithIndex.collect { case ((f: ImperativeAggregate, at), i) =>
      f.withNewMutableAggBufferOffset(at) -> i
    }

  private val evaluated = MutableProjection.create(
    functions.map {
      case d: DeclarativeAggregate => d.evaluateExpression
      case _                       => NoOp
    },
    buffers
  )

  /** The types of an accumulator's columns. */
  val bufferTypes: Seq[DataType] = buffers.map(_.dataType)

  /** A new accumulator, of no rows. */
  def blank(): InternalRow = {
    val work = new SpecificInternalRow(bufferTypes)
    initial.target(work)(InternalRow.empty)
    imperative.foreach(_._1.initialize(work))
    work
  }

  /** Adds a row to an accumulator. */
  def add(work: InternalRow, row: InternalRow): Unit = update(work, row)

  /** The results of an accumulator. */
  def results(work: InternalRow): InternalRow = {
    val results = new GenericInternalRow(functions.length)
    evaluated.target(results)(work)
    imperative.foreach { case (function, i) => results.update(i, function.eval(work)) }
    results
  }

  /** The results of rows. */
  def apply(rows: Iterator[UnsafeRow]): InternalRow = {
    val work = blank()
    rows.foreach(add(work, _))
    results(work)
  }
}
