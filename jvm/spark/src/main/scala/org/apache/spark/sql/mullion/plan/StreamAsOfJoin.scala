package org.apache.spark.sql.mullion.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, UnaryNode}
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan}
import org.apache.spark.sql.mullion.expressions.columns.KeyColumns
import org.apache.spark.sql.mullion.operator.asof.{AsOfExec, AsOfProgram}
import org.apache.spark.sql.mullion.operator.assign.OneTaskExec

import dev.mullion.windows.rules.AsOfRules
import dev.mullion.windows.spec.Language

/** An as-of join of two streams: one output row per left row, with the columns of its match. Its child has the rows of
  * both sides.
  *
  * @param keys
  *   columns of the child
  * @param time
  *   the time of a row in microseconds: a column of the child
  * @param left
  *   a left row as a struct, null in right rows: a column of the child
  * @param right
  *   a right row as a struct, null in left rows: a column of the child
  * @param columns
  *   the output: the columns of the left side, then some of the right side
  */
case class StreamAsOfJoin(
    keys: Seq[Attribute],
    time: Attribute,
    left: Attribute,
    right: Attribute,
    columns: Seq[Attribute],
    terms: AsOfTerms,
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = columns

  override def producedAttributes: AttributeSet = AttributeSet(columns)

  override def simpleString(maxFields: Int): String =
    s"$nodeName ${terms.rules.direction.name} by ${KeyColumns.named(keys).map(_.name).mkString("[", ", ", "]")}"

  /** The order of arrival within a batch, which the planned node adds to its rows. */
  private[plan] lazy val arrival: Alias = Alias(MonotonicallyIncreasingID(), "arrival")()

  private[mullion] lazy val program: AsOfProgram = AsOfProgram(
    keys,
    time,
    arrival.toAttribute,
    left,
    right,
    child.output :+ arrival.toAttribute,
    columns,
    terms.rightFields,
    terms.rules
  )

  /** True if its output has the watermark of the left side. */
  private[plan] def hasWatermark: Boolean = columns.exists(_.metadata.contains(EventTimeWatermark.delayKey))

  override protected def withNewChildInternal(newChild: LogicalPlan): StreamAsOfJoin = copy(child = newChild)
}

/** The options of a join that involve no columns.
  *
  * @param rightFields
  *   the indexes of the right side's columns in the output
  * @param language
  *   the language of the request, for messages
  */
case class AsOfTerms(rules: AsOfRules, rightFields: Seq[Int], language: Language)

/** Plans [[StreamAsOfJoin]]: `AsOfExec - [sort by time] - [shuffle by key] - Project arrival - child`. */
private[plan] object AsOfPlan {
  def apply(node: StreamAsOfJoin, planLater: LogicalPlan => SparkPlan): SparkPlan = {
    val rows = ProjectExec(node.child.output :+ node.arrival, planLater(node.child))
    AsOfExec(node.program, OneTaskExec.ifOnePartition(rows))
  }
}
