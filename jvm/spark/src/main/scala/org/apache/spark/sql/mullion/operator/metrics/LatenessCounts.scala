package org.apache.spark.sql.mullion.operator.metrics

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.apache.spark.util.AccumulatorV2

import dev.mullion.windows.clock.Lateness

/** The late rows of a batch's tasks in the buckets of [[dev.mullion.windows.clock.Lateness]]. The task of a partition
  * may run for each action on the batch; its rows count once.
  */
private[mullion] final class LatenessCounts extends AccumulatorV2[Long, Array[Long]] {
  private val counts = new Array[Long](Lateness.Buckets)
  private val ofPartitions = mutable.Map.empty[Int, Array[Long]]

  override def isZero: Boolean = value.forall(_ == 0)
  override def copy(): LatenessCounts = { val c = new LatenessCounts; c.merge(this); c }
  override def reset(): Unit = { java.util.Arrays.fill(counts, 0L); ofPartitions.clear() }
  override def add(lateness: Long): Unit = count(lateness)
  override def merge(other: AccumulatorV2[Long, Array[Long]]): Unit = other match {
    case of: LatenessCounts =>
      LatenessCounts.add(counts, of.counts)
      ofPartitions ++= of.ofPartitions
    case _ => throw new UnsupportedOperationException(s"$this cannot merge $other")
  }
  override def value: Array[Long] = {
    val all = counts.clone()
    ofPartitions.values.foreach(LatenessCounts.add(all, _))
    all
  }

  /** Counts a row by its lateness in microseconds; called by generated code. */
  def count(lateness: Long): Unit = counts(Lateness.bucket(lateness)) += 1

  /** Records the rows of each bucket that the task of a partition found; an empty array has none. */
  def setRows(partition: Int, rows: Array[Long]): Unit = ofPartitions(partition) = rows.clone()
}

private[mullion] object LatenessCounts {
  def register(context: SparkContext): LatenessCounts = {
    val counts = new LatenessCounts
    context.register(counts)
    counts
  }

  private def add(to: Array[Long], rows: Array[Long]): Unit = {
    var i = 0
    while (i < rows.length) { to(i) += rows(i); i += 1 }
  }
}
