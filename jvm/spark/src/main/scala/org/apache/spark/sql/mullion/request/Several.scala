package org.apache.spark.sql.mullion.request

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** The plans of a call with several inputs. It produces no rows itself: only a call is above it. */
private[request] final case class Several(children: Seq[LogicalPlan]) extends LogicalPlan {
  override lazy val resolved: Boolean = false

  override def output: Seq[Attribute] = Nil

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[LogicalPlan]): Several =
    copy(children = newChildren)
}
