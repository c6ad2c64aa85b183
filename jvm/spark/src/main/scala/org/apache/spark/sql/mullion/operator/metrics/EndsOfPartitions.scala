package org.apache.spark.sql.mullion.operator.metrics

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.apache.spark.util.AccumulatorV2

/** The open panes of each partition after a batch, by the end of their windows (`EndCounts.toBytes`). If a partition's
  * task runs several times, the last run counts.
  */
private[operator] final class EndsOfPartitions extends AccumulatorV2[(Int, Array[Byte]), Map[Int, Array[Byte]]] {
  private val ofPartitions = mutable.Map.empty[Int, Array[Byte]]

  override def isZero: Boolean = ofPartitions.isEmpty
  override def copy(): EndsOfPartitions = { val c = new EndsOfPartitions; c.merge(this); c }
  override def reset(): Unit = ofPartitions.clear()
  override def add(ends: (Int, Array[Byte])): Unit = { ofPartitions += ends; () }
  override def merge(other: AccumulatorV2[(Int, Array[Byte]), Map[Int, Array[Byte]]]): Unit = {
    ofPartitions ++= other.value
    ()
  }
  override def value: Map[Int, Array[Byte]] = ofPartitions.toMap
}

private[operator] object EndsOfPartitions {
  def register(context: SparkContext): EndsOfPartitions = {
    val ends = new EndsOfPartitions
    context.register(ends)
    ends
  }
}
