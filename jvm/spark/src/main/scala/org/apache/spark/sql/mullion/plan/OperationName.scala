package org.apache.spark.sql.mullion.plan

import org.apache.spark.sql.catalyst.plans.logical._

/** The name of a plan's last operation in the API, for error messages. */
private[mullion] object OperationName {
  def apply(plan: LogicalPlan): String = plan match {
    case Windows(_)            => "windowed"
    case _: StreamAsOfJoin     => "asof_join"
    case _: EventTimeWatermark => "withWatermark"
    case _: Filter             => "where"
    case _: Project            => "select"
    case _: Aggregate          => "groupBy"
    case _: Join               => "join"
    case _: Deduplicate        => "dropDuplicates"
    case other                 => other.nodeName
  }
}
