package org.apache.spark.sql.mullion.operator.metrics

import org.apache.spark.SparkContext
import org.apache.spark.util.AccumulatorV2

import dev.mullion.windows.clock.Lateness

/** The late rows of a batch's tasks in the buckets of [[dev.mullion.windows.clock.Lateness]]. */
private[mullion] final class LatenessCounts extends AccumulatorV2[Long, Array[Long]] {
  private val counts = new Array[Long](Lateness.Buckets)

  override def isZero: Boolean = counts.forall(_ == 0)
  override def copy(): LatenessCounts = { val c = new LatenessCounts; c.addRows(counts); c }
  override def reset(): Unit = java.util.Arrays.fill(counts, 0L)
  override def add(lateness: Long): Unit = count(lateness)
  override def merge(other: AccumulatorV2[Long, Array[Long]]): Unit = addRows(other.value)
  override def value: Array[Long] = counts.clone()

  /** Counts a row by its lateness in microseconds; called by generated code. */
  def count(lateness: Long): Unit = counts(Lateness.bucket(lateness)) += 1

  /** Adds the rows of each bucket; an empty array has none. */
  def addRows(rows: Array[Long]): Unit = {
    var i = 0
    while (i < rows.length) { counts(i) += rows(i); i += 1 }
  }
}

private[mullion] object LatenessCounts {
  def register(context: SparkContext): LatenessCounts = {
    val counts = new LatenessCounts
    context.register(counts)
    counts
  }
}
