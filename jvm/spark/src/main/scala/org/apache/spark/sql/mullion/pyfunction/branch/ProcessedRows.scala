package org.apache.spark.sql.mullion.pyfunction.branch

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.execution.LeafExecNode
import org.apache.spark.sql.mullion.operator.RowsOfStage
import org.apache.spark.sql.mullion.shim.DescribedExec
import org.apache.spark.{Partition, SparkContext, TaskContext}

/** The rows that the first stage of [[KeyedFunction]] produces for one of its windows: the leaf of that window's plan.
  *
  * {{{
  *   KeyedFunction
  *    |- rows              - process produces from them, in one task, ...
  *    |- WindowedAggregate - ProcessedRows 1
  *    '- WindowedAggregate - ProcessedRows 2
  * }}}
  *
  * @param stages
  *   the id of the [[KeyedFunction]], assigned during planning
  * @param target
  *   the number of the window, from 1
  */
case class ProcessedRows(stages: String, target: Int, output: Seq[Attribute]) extends LeafNode {
  override def isStreaming: Boolean = true

  override def producedAttributes: AttributeSet = outputSet

  override def computeStats(): Statistics = Statistics(conf.defaultSizeInBytes)
}

object ProcessedRows {
  val unplanned = ""

  /** True if a window over `plan` gets rows that are already distributed by shard. */
  def areIn(plan: LogicalPlan): Boolean = plan.exists(_.isInstanceOf[ProcessedRows])
}

/** @param partitions
  *   their number, once the batch is known
  * @param rowsCame
  *   whether the sources below the first stage had rows
  */
case class ProcessedRowsExec(
    stages: String,
    target: Int,
    output: Seq[Attribute],
    partitions: Option[Int],
    rowsCame: Boolean
) extends LeafExecNode
    with RowsOfStage
    with DescribedExec {
  override def producedAttributes: AttributeSet = outputSet

  override def simpleString(maxFields: Int): String = s"$nodeName $target"

  override protected def doExecute(): RDD[InternalRow] =
    new ProcessedRowsRDD(sparkContext, stages, target, partitions.getOrElse(0), output)
}

private final class ProcessedRowsRDD(
    context: SparkContext,
    stages: String,
    target: Int,
    partitions: Int,
    output: Seq[Attribute]
) extends RDD[InternalRow](context, Nil) {

  override protected def getPartitions: Array[Partition] = Array.tabulate[Partition](partitions)(i =>
    new Partition {
      override def index: Int = i
    }
  )

  override def compute(partition: Partition, context: TaskContext): Iterator[InternalRow] =
    RoutedRows.ofTask(stages, context).rows(target, output)
}
