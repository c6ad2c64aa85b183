package org.apache.spark.sql.mullion.operator.partial

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.vectorized.{ConstantColumnVector, OffHeapColumnVector, OnHeapColumnVector}
import org.apache.spark.sql.execution.{CodegenSupport, ColumnarRule, ColumnarToRowExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.mullion.operator.assign.{AssignsPanes, FusedWatermarkExec}

/** Replaces Spark's node below Mullion's partial aggregate by [[ReadColumnsExec]].
  *
  * Only if each row is used, because all columns are copied first: a filter in between may drop most rows. And only for
  * Spark's own vector classes.
  */
object ReadColumns extends ColumnarRule {
  private val knownVectors =
    Set(classOf[OnHeapColumnVector], classOf[OffHeapColumnVector], classOf[ConstantColumnVector]).map(_.getName)

  override def postColumnarTransitions: Rule[SparkPlan] = (plan: SparkPlan) =>
    plan.transformUp { case aggregate: PartialAggregateExec => aggregate.mapChildren(below) }

  private def below(plan: SparkPlan): SparkPlan = plan match {
    case ColumnarToRowExec(scan) if scan.vectorTypes.exists(_.forall(knownVectors)) => ReadColumnsExec(scan)
    case _ if gives(plan)                                                           => plan.mapChildren(below)
    case other                                                                      => other
  }

  /** The reader of a plan's columns, if all nodes in between pass rows on within the scan's own loop. */
  private[partial] def under(plan: SparkPlan): Option[ReadColumnsExec] = plan match {
    case columns: ReadColumnsExec              => Some(columns)
    case _ if gives(plan) && !isInMethod(plan) => under(plan.children.head)
    case _                                     => None
  }

  /** True if Spark may move a node's work per row into a separate method: if it requires all columns evaluated. */
  private def isInMethod(plan: SparkPlan) = plan match {
    case node: CodegenSupport => plan.children.head.output.forall(node.usedInputs.contains)
    case _                    => true
  }

  private def gives(plan: SparkPlan) = plan match {
    case _: ProjectExec | _: FusedWatermarkExec | _: AssignsPanes => true
    case _                                                        => false
  }
}
