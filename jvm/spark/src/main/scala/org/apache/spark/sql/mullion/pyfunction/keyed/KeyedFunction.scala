package org.apache.spark.sql.mullion.pyfunction.keyed

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.mullion.pyfunction.branch.{ProcessedRows, ProcessedRowsExec}

/** Python functions over the rows of each shard, with their own state, and optional windows in between.
  *
  * {{{
  *   one stage     rows - [shuffle by shard] - process
  *   two stages    rows - [shuffle by shard] - process - windows - callbacks, all in one task
  * }}}
  *
  * @param input
  *   the input of process: columns of the child
  * @param shards
  *   the distribution keys: columns of the child
  * @param panes
  *   the columns of each window
  * @param child
  *   the rows
  * @param windows
  *   the windows' plans, each over [[ProcessedRows]]
  */
case class KeyedFunction(
    input: Seq[Attribute],
    shards: Seq[Attribute],
    output: Seq[Attribute],
    panes: Seq[Seq[Attribute]],
    program: KeyedFunctionProgram,
    child: LogicalPlan,
    windows: Seq[LogicalPlan]
) extends LogicalPlan {

  override def children: Seq[LogicalPlan] = child +: windows

  override def producedAttributes: AttributeSet = outputSet

  override def simpleString(maxFields: Int): String = s"$nodeName ${program.describe}"

  override protected def withNewChildrenInternal(children: IndexedSeq[LogicalPlan]): KeyedFunction =
    copy(child = children.head, windows = children.tail)
}

object KeyedFunctionStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case node: KeyedFunction =>
      // Unique, because a DataFrame that is used twice may run twice in one task.
      val id = s"stages-${NamedExpression.newExprId.id}"
      val stages = KeyedFunctionStages(id, node.program, node.input, node.shards, node.output, node.panes)
      val windows = node.windows.map(_.transform { case rows: ProcessedRows => rows.copy(stages = id) })
      Seq(KeyedFunctionExec(stages, planLater(node.child), BranchesExec(windows.map(planLater))))
    case entries: FlowEntries =>
      import entries._
      Seq(FlowEntriesExec(input, program, process, output, planLater(child)))
    case rows: ProcessedRows => Seq(ProcessedRowsExec(rows.stages, rows.target, rows.output, None, rowsCame = false))
    case _                   => Nil
  }
}
