package org.apache.spark.sql.mullion.python

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.mullion.exec.programs.OperatorProgram
import org.apache.spark.sql.mullion.exec.{BranchBatch, SortByKeyExec, WindowExec}

/** A branch, a window between two stages: a [[WindowExec]] that Spark does not take for an operator with state.
  *
  * Spark finds the state of operators again by their order in the plan, and refuses a checkpoint that has others. A
  * branch is found by its name: see [[BranchState]]. So Spark sees the one operator that it stands in, which hands it
  * what Spark hands to operators.
  *
  * @param batch
  *   what is known of the batch, once it is
  */
case class BranchExec(program: OperatorProgram, batch: Option[BranchBatch], child: SparkPlan)
    extends UnaryExecNode
    with SortByKeyExec.Wanted {

  /** The operator, in a batch. */
  @transient lazy val window: WindowExec = WindowExec.ofBranch(program, batch.get, child)

  def forBatch(batch: BranchBatch): BranchExec =
    copy(batch = Some(batch), child = WindowExec.childOfBranch(program, batch, child))

  override def output: Seq[Attribute] = program.output

  override def producedAttributes: AttributeSet = outputSet

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def requiredChildOrdering: Seq[Seq[SortOrder]] = Seq(program.ordering)

  override lazy val metrics: Map[String, SQLMetric] = if (batch.isDefined) window.metrics else Map.empty

  override def simpleString(maxFields: Int): String = s"$nodeName ${program.describe}"

  override protected def doExecute(): RDD[InternalRow] = window.execute()

  override protected def withNewChildInternal(newChild: SparkPlan): BranchExec = copy(child = newChild)
}
