package org.apache.spark.sql.mullion.operator.bounded

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{ClusteredDistribution, Distribution, Partitioning}
import org.apache.spark.sql.execution.UnaryExecNode
import org.apache.spark.sql.mullion.shim.DescribedExec

/** A node on a batch DataFrame that requires the partial rows of a key together, and in order of time. */
private[mullion] trait KeyInOrderExec extends UnaryExecNode with DescribedExec {
  def keys: Seq[Attribute]

  /** The order of the rows of a key. */
  protected def order: Attribute

  override def requiredChildDistribution: Seq[Distribution] = Seq(ClusteredDistribution(keys))

  /** Keys without an order (maps) are sorted by their bytes; hashes may collide. */
  override def requiredChildOrdering: Seq[Seq[SortOrder]] = {
    val byKey = if (RowOrdering.isOrderable(keys)) keys else Seq(KeyBytes(keys))
    Seq((byKey :+ order).map(SortOrder(_, Ascending)))
  }

  override def outputPartitioning: Partitioning = child.outputPartitioning
}
