package org.apache.spark.sql.mullion.operator

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, Partitioning, SinglePartition}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.mullion.operator.assign.OneTaskExec

/** All rows of a batch in one task, in which the operator above processes the partitions of its state one after
  * another.
  *
  * {{{
  *   ReadByEachTask   task: scan - partial aggregate - own rows - WindowExec, partition 0
  *                    task: scan - partial aggregate - own rows - WindowExec, partition 1
  *   this             task: scan - partial aggregate - WindowExec, partition 0, then partition 1
  * }}}
  *
  * A task costs more than a partition's share of a hundred rows: it is sent, opens the file, and occupies a core. The
  * number of state partitions is unchanged, and the next batch may have a task for each.
  *
  * `scan.PartitionsInTurn` documents the conditions.
  *
  * @param by
  *   the partitioning of rows
  */
final case class PartitionsInTurnExec(by: HashPartitioning, child: SparkPlan) extends UnaryExecNode {

  override def nodeName: String = "PartitionsInTurn"

  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning = SinglePartition

  override protected def doExecute(): RDD[InternalRow] = OneTaskExec.inOne(child.execute())

  override protected def withNewChildInternal(newChild: SparkPlan): PartitionsInTurnExec = copy(child = newChild)
}

private[operator] object PartitionsInTurnExec {

  /** The partitioning of an operator's rows, if they are all in one task. */
  def below(child: SparkPlan): Option[HashPartitioning] = child match {
    case rows: PartitionsInTurnExec                   => Some(rows.by)
    case SortByKeyExec(_, rows: PartitionsInTurnExec) => Some(rows.by)
    case _                                            => None
  }
}
