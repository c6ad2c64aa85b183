package org.apache.spark.sql.mullion.operator.assign

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, SinglePartition}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/** All rows in one partition: unchanged if a batch has them in one already, else by a shuffle.
  *
  * {{{
  *   state in one partition, the batch's rows in one:      scan - partial aggregate - WindowExec            one task
  *   state in one partition, the batch's rows in several:  scan - partial aggregate - shuffle - WindowExec
  * }}}
  *
  * A shuffle is a separate stage, with files and a second round of tasks: a large part of a small batch. Spark decides
  * about shuffles during planning, before the number of a file source's partitions is known; this node decides when the
  * batch begins.
  */
case class OneTaskExec(child: SparkPlan) extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning = SinglePartition

  override protected def doExecute(): RDD[InternalRow] = {
    val rows = child.execute()
    if (rows.getNumPartitions > 1) ShuffleExchangeExec(SinglePartition, child).execute() else OneTaskExec.inOne(rows)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): OneTaskExec = copy(child = newChild)
}

object OneTaskExec {

  /** Rows in one partition; or in none, for a batch without rows, in which panes may close. */
  private[operator] def inOne(rows: RDD[InternalRow]): RDD[InternalRow] =
    if (rows.getNumPartitions == 0) rows.sparkContext.parallelize(Seq.empty[InternalRow], 1) else rows

  /** The rows of `plan` in one task, if there is one partition of state for them; else Spark shuffles them by key. */
  def ifOnePartition(plan: SparkPlan): SparkPlan =
    if (plan.conf.numShufflePartitions == 1) OneTaskExec(plan) else plan
}
