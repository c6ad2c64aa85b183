package org.apache.spark.sql.mullion.operator.metrics

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.apache.spark.util.AccumulatorV2

/** A value of each partition after a batch. If a partition's task runs several times, the last run counts. */
private[operator] final class LastOfPartitions[A] extends AccumulatorV2[(Int, A), Map[Int, A]] {
  private val ofPartitions = mutable.Map.empty[Int, A]

  override def isZero: Boolean = ofPartitions.isEmpty
  override def copy(): LastOfPartitions[A] = { val c = new LastOfPartitions[A]; c.merge(this); c }
  override def reset(): Unit = ofPartitions.clear()
  override def add(last: (Int, A)): Unit = { ofPartitions += last; () }
  override def merge(other: AccumulatorV2[(Int, A), Map[Int, A]]): Unit = { ofPartitions ++= other.value; () }
  override def value: Map[Int, A] = ofPartitions.toMap
}

private[operator] object LastOfPartitions {
  def register[A](context: SparkContext): LastOfPartitions[A] = {
    val values = new LastOfPartitions[A]
    context.register(values)
    values
  }
}
