package org.apache.spark.sql.mullion.shim

import org.apache.spark.sql.catalyst.optimizer.InsertMapSortInAggregate
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** Spark's rule that sorts the maps in grouping expressions; its name has changed. */
object MapSorting {
  def inGroups(plan: LogicalPlan): LogicalPlan = InsertMapSortInAggregate(plan)
}
