package org.apache.spark.sql.mullion.operator.partial

import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.{Attribute, BindReferences, BitmapConstructAgg, BitmapOrAgg}
import org.apache.spark.sql.mullion.operator.partial.group.{GroupLayout, GroupObjects}

/** The imperative functions of an aggregate, and the columns that they read.
  *
  * @param columns
  *   the columns of the rows to add
  */
private[partial] final class ImperativeCalls(
    layout: GroupLayout,
    aggregates: Seq[AggregateExpression],
    columns: Seq[Attribute]
) {
  private val functions = aggregates.map(_.aggregateFunction)
  private val firstOf = functions.scanLeft(layout.keys.length)(_ + _.aggBufferAttributes.length)
  private val imperative = functions.zipWithIndex.collect { case (f: ImperativeAggregate, i) => f -> i }
  private val inputs = columns.filter(c => imperative.exists(_._1.references.contains(c)))

  /** The number of the function of an aggregate. */
  def numberOf(aggregate: Int): Int = imperative.indexWhere(_._2 == aggregate)

  /** The places of a function's columns in its input, in the order of the rows' columns. */
  def inputsOf(aggregate: Int): Seq[Int] =
    inputs.indices.filter(at => functions(aggregate).references.contains(inputs(at)))

  /** The layout of records with objects, if they have any. */
  def kinds: Option[GroupObjects.Kinds] = Option.when(layout.hasObjects) {
    new GroupObjects.Kinds(
      (layout.keys ++ layout.buffers).map(_.dataType).toArray,
      functions.zip(firstOf).collect { case (f: TypedImperativeAggregate[_], at) => at -> f }.toMap,
      imperative.flatMap { case (f, i) =>
        val buffers = f.aggBufferAttributes
        buffers.indices.filter(j => GroupLayout.isObject(buffers(j).dataType)).map(firstOf(i) + _)
      }.toArray,
      imperative.map { case (f, i) =>
        BindReferences.bindReference(f, inputs).withNewMutableAggBufferOffset(firstOf(i)): ImperativeAggregate
      }.toArray,
      inputs.map(_.dataType).toArray,
      layout.bytes
    )
  }
}

private[partial] object ImperativeCalls {

  /** True if an imperative function can update the buffers of groups: those of others may become null. */
  def canCall(function: AggregateFunction): Boolean = function match {
    case _: TypedImperativeAggregate[_]         => true
    case _: BitmapConstructAgg | _: BitmapOrAgg => true
    case _                                      => false
  }
}
