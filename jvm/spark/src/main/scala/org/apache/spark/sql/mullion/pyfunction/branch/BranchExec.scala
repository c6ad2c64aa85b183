package org.apache.spark.sql.mullion.pyfunction.branch

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.mullion.operator.program.OperatorProgram
import org.apache.spark.sql.mullion.operator.{BranchBatch, SortByKeyExec, WindowExec}
import org.apache.spark.sql.mullion.shim.DescribedExec

/** A branch, a window between two stages: a [[WindowExec]] that Spark does not treat as a stateful operator.
  *
  * Spark identifies the state of operators by their order in the plan, and rejects a checkpoint with others. A branch
  * is identified by its name: see [[BranchState]]. Spark therefore only sees the operator that contains it, which
  * passes on Spark's facts of a batch.
  *
  * @param batch
  *   the facts of the batch, once known
  */
case class BranchExec(program: OperatorProgram, batch: Option[BranchBatch], child: SparkPlan)
    extends UnaryExecNode
    with SortByKeyExec.Wanted
    with DescribedExec {

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
