package org.apache.spark.sql.mullion.operator.assign

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, UnspecifiedDistribution}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorPartitioning
import org.apache.spark.sql.internal.SQLConf

/** The distribution of rows: to the partition with their key's state. */
private[operator] object ByKey {

  /** @param keys
    *   the distribution keys; none if a previous stage has distributed rows
    * @param partitions
    *   the number of state partitions
    */
  def distribution(keys: Option[Seq[Attribute]], partitions: Int, conf: SQLConf): Distribution =
    keys.fold[Distribution](UnspecifiedDistribution)(
      StatefulOperatorPartitioning.getCompatibleDistribution(_, partitions, conf)
    )
}
