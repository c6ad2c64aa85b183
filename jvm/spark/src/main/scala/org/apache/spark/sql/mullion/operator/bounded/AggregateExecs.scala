package org.apache.spark.sql.mullion.operator.bounded

import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.{Attribute, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.Aggregate
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.{HashAggregateExec, ObjectHashAggregateExec, SortAggregateExec}

/** Spark's own aggregate nodes, in the required mode, of the kind that Spark's planner chooses. Spark itself offers
  * that choice only for complete aggregations.
  */
private[mullion] object AggregateExecs {

  def apply(
      mode: AggregateMode,
      distribution: Option[Seq[Attribute]],
      isStreaming: Boolean,
      grouping: Seq[NamedExpression],
      expressions: Seq[AggregateExpression],
      results: Seq[NamedExpression],
      child: SparkPlan
  ): SparkPlan = {
    // A filter applies to rows; in the other modes the input is buffers.
    val inMode = expressions.map(e => e.copy(mode = mode, filter = if (mode == Partial) e.filter else None))
    val attributes =
      if (mode == Final) inMode.map(_.resultAttribute) else inMode.flatMap(_.aggregateFunction.aggBufferAttributes)
    val offset = if (mode == Partial) 0 else grouping.length
    val buffers = inMode.flatMap(_.aggregateFunction.aggBufferAttributes)
    if (Aggregate.supportsHashAggregate(buffers, grouping))
      HashAggregateExec(distribution, isStreaming, None, grouping, inMode, attributes, offset, results, child)
    else if (child.conf.useObjectHashAggregation && Aggregate.supportsObjectHashAggregate(inMode, grouping))
      ObjectHashAggregateExec(distribution, isStreaming, None, grouping, inMode, attributes, offset, results, child)
    else SortAggregateExec(distribution, isStreaming, None, grouping, inMode, attributes, offset, results, child)
  }
}
