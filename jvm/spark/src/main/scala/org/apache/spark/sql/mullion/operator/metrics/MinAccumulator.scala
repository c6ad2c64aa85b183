package org.apache.spark.sql.mullion.operator.metrics

import org.apache.spark.SparkContext
import org.apache.spark.util.AccumulatorV2

/** The minimum of tasks' reports: the earliest time at which something is due. */
private[mullion] final class MinAccumulator extends AccumulatorV2[Long, Long] {
  private var least = Long.MaxValue

  override def isZero: Boolean = least == Long.MaxValue
  override def copy(): MinAccumulator = { val c = new MinAccumulator; c.least = least; c }
  override def reset(): Unit = least = Long.MaxValue
  override def add(value: Long): Unit = least = Math.min(least, value)
  override def merge(other: AccumulatorV2[Long, Long]): Unit = add(other.value)
  override def value: Long = least
}

private[mullion] object MinAccumulator {
  def register(context: SparkContext, name: String): MinAccumulator = {
    val least = new MinAccumulator
    context.register(least, name)
    least
  }
}
