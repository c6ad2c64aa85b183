package org.apache.spark.sql.mullion.exec.partial

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{CodegenSupport, ColumnarRule, ColumnarToRowExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.execution.vectorized.{ConstantColumnVector, OffHeapColumnVector, OnHeapColumnVector}
import org.apache.spark.sql.mullion.exec.assign.{AssignsPanes, FusedWatermarkExec}

/** Puts [[ReadColumnsExec]] in the place of Spark's node below a partial aggregate of our own.
  *
  * Only where each row that is read is also used, for all its columns are copied before: a filter between them may want
  * few rows. And only of vectors that are Spark's own, whose code is known.
  */
object ReadColumns extends ColumnarRule {
  private val known =
    Set(classOf[OnHeapColumnVector], classOf[OffHeapColumnVector], classOf[ConstantColumnVector]).map(_.getName)

  override def postColumnarTransitions: Rule[SparkPlan] = (plan: SparkPlan) =>
    plan.transformUp { case aggregate: PartialAggregateExec => aggregate.mapChildren(below) }

  private def below(plan: SparkPlan): SparkPlan = plan match {
    case ColumnarToRowExec(scan) if scan.vectorTypes.exists(_.forall(known)) => ReadColumnsExec(scan)
    case _ if gives(plan)                                                    => plan.mapChildren(below)
    case other                                                               => other
  }

  /** What reads the columns of a plan's rows, if all that is between hands each row on by itself, in the scan's own
    * loop.
    */
  private[partial] def under(plan: SparkPlan): Option[ReadColumnsExec] = plan match {
    case columns: ReadColumnsExec              => Some(columns)
    case _ if gives(plan) && !isInMethod(plan) => under(plan.children.head)
    case _                                     => None
  }

  /** True if Spark may put what a node does with a row into a method of its own: where it wants all columns evaluated.
    */
  private def isInMethod(plan: SparkPlan) = plan match {
    case node: CodegenSupport => plan.children.head.output.forall(node.usedInputs.contains)
    case _                    => true
  }

  private def gives(plan: SparkPlan) = plan match {
    case _: ProjectExec | _: FusedWatermarkExec | _: AssignsPanes => true
    case _                                                        => false
  }
}
