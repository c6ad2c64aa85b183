package org.apache.spark.sql.mullion.state

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.util.AccumulatorV2

/** The counts of a batch's tasks by partition. A batch's plan may run several times, as with two actions in
  * `foreachBatch`. These counts are those of a partition's last run, whereas Spark's metrics add up all runs.
  */
private[mullion] final class PartitionCounts extends AccumulatorV2[(Int, Array[Long]), Map[Int, Array[Long]]] {
  private var counts = Map.empty[Int, Array[Long]]

  override def isZero: Boolean = counts.isEmpty
  override def copy(): PartitionCounts = { val c = new PartitionCounts; c.counts = counts; c }
  override def reset(): Unit = counts = Map.empty
  override def add(of: (Int, Array[Long])): Unit = counts += of
  override def merge(other: AccumulatorV2[(Int, Array[Long]), Map[Int, Array[Long]]]): Unit = counts ++= other.value
  override def value: Map[Int, Array[Long]] = counts

  /** Records the amounts that `count` adds to `metrics` for a partition. */
  def noting(partition: Int, metrics: Array[SQLMetric])(count: => Unit): Unit = {
    val before = metrics.map(_.value)
    count
    add(partition -> metrics.zip(before).map { case (metric, had) => metric.value - had })
  }

  /** Replaces the summed metrics by those of the last run. */
  def settle(metrics: Array[SQLMetric]): Unit = metrics.zipWithIndex.foreach { case (metric, i) =>
    val counted = counts.values.map(_(i))
    // Metrics that are always zero here are counted elsewhere.
    if (counted.exists(_ != 0)) metric.set(counted.sum)
  }
}

private[mullion] object PartitionCounts {
  def register(context: SparkContext): PartitionCounts = {
    val counts = new PartitionCounts
    context.register(counts)
    counts
  }
}
