package org.apache.spark.sql.mullion.exec.assign

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, UnspecifiedDistribution}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorPartitioning
import org.apache.spark.sql.internal.SQLConf

/** Where rows of one key are: in the partition that has the key's state. */
private[exec] object ByKey {

  /** @param keys
    *   what rows are distributed by; none where a stage before has done it, and they stay as they are
    * @param partitions
    *   into how many partitions state is divided
    */
  def distribution(keys: Option[Seq[Attribute]], partitions: Int, conf: SQLConf): Distribution =
    keys.fold[Distribution](UnspecifiedDistribution)(
      StatefulOperatorPartitioning.getCompatibleDistribution(_, partitions, conf)
    )
}
