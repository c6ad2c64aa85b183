package org.apache.spark.sql.mullion.exec

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, Partitioning, SinglePartition}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.mullion.exec.assign.OneTaskExec

/** All rows of a batch in one task, in which the operator above works on one partition of its state after the other.
  *
  * {{{
  *   ReadByEachTask   task: scan - partial aggregate - own rows - WindowExec, partition 0
  *                    task: scan - partial aggregate - own rows - WindowExec, partition 1
  *   this             task: scan - partial aggregate - WindowExec, partition 0, then partition 1
  * }}}
  *
  * A task costs more than a partition's part of a hundred rows does: it is sent, it opens the file, and it wants a
  * core. State is in as many partitions as before, and the next batch may have a task for each of them.
  *
  * See `scan.PartitionsInTurn` for where.
  *
  * @param by
  *   how rows belong to partitions
  */
final case class PartitionsInTurnExec(by: HashPartitioning, child: SparkPlan) extends UnaryExecNode {

  override def nodeName: String = "PartitionsInTurn"

  override def output: Seq[Attribute] = child.output

  override def outputPartitioning: Partitioning = SinglePartition

  override protected def doExecute(): RDD[InternalRow] = OneTaskExec.inOne(child.execute())

  override protected def withNewChildInternal(newChild: SparkPlan): PartitionsInTurnExec = copy(child = newChild)
}

private[exec] object PartitionsInTurnExec {

  /** How the rows of an operator's child belong to its partitions, if they are all in one task. */
  def below(child: SparkPlan): Option[HashPartitioning] = child match {
    case rows: PartitionsInTurnExec                   => Some(rows.by)
    case SortByKeyExec(_, rows: PartitionsInTurnExec) => Some(rows.by)
    case _                                            => None
  }
}
