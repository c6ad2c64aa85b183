package org.apache.spark.sql.mullion.operator.partial

import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, DeclarativeAggregate}

/** The aggregates of a node that update their buffers by code of their own, by their place among all.
  *
  * Spark generates no code for a node with such expressions, so they are not among the node's expressions. They get
  * their rows by a call from generated code.
  */
final case class CalledAggregates(byPlace: Map[Int, AggregateExpression]) {

  /** All aggregates, given the others. */
  def among(others: Seq[AggregateExpression]): Seq[AggregateExpression] = {
    val rest = others.iterator
    (0 until others.length + byPlace.size).map(i => byPlace.getOrElse(i, rest.next()))
  }
}

private[partial] object CalledAggregates {

  /** The called ones, and the others. */
  def split(aggregates: Seq[AggregateExpression]): (CalledAggregates, Seq[AggregateExpression]) = {
    val (others, called) =
      aggregates.zipWithIndex.partition(_._1.aggregateFunction.isInstanceOf[DeclarativeAggregate])
    CalledAggregates(called.map(_.swap).toMap) -> others.map(_._1)
  }
}
