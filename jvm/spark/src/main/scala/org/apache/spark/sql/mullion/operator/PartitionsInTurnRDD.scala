package org.apache.spark.sql.mullion.operator

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.mullion.expressions.rows.Projections
import org.apache.spark.sql.mullion.state.record.StatePartition
import org.apache.spark.sql.mullion.state.{BatchOutput, PartitionOpener, SettingsOfRun}
import org.apache.spark.{Partition, TaskContext}

/** Runs an operator on all partitions of its state in one task: each is opened once the previous one is committed.
  * `StateRDD` uses one task each.
  *
  * If the task fails between two, the first has been committed and the second has not, as when one of two tasks fails:
  * the batch runs again from the version that both had before it.
  *
  * @param rows
  *   the rows of all partitions, in one; there are few
  * @param columns
  *   their columns
  * @param output
  *   caches the operator's rows for further actions on the batch, if there may be any
  */
private[operator] final class PartitionsInTurnRDD(
    rows: RDD[InternalRow],
    by: HashPartitioning,
    columns: Seq[Attribute],
    opener: PartitionOpener,
    hadoopConf: SettingsOfRun.Settings,
    body: (Int, StatePartition, Iterator[InternalRow]) => Iterator[InternalRow],
    output: Option[BatchOutput]
) extends RDD[InternalRow](rows) {

  override protected def getPartitions: Array[Partition] = firstParent[InternalRow].partitions

  /** None: the state is where the session is. */
  override def getPreferredLocations(partition: Partition): Seq[String] = Nil

  override def compute(partition: Partition, context: TaskContext): Iterator[InternalRow] = {
    lazy val ofPartitions = byPartition(firstParent[InternalRow].iterator(partition, context))
    def run(index: Int) = {
      // The input first, so that no store is held while an upstream operator of this task still works.
      val own = ofPartitions(index)
      body(index, opener.open(index, hadoopConf.value.value), own.iterator)
    }
    output match {
      case None       => Iterator.range(0, by.numPartitions).flatMap(run)
      case Some(kept) =>
        val partitions = Iterator.range(0, by.numPartitions).map(index => kept.rows(index)(run(index)))
        // If all rows are cached, an action that stops early must still process all partitions.
        val ahead = ArrayBuffer.empty[BatchOutput.Rows]
        while (partitions.hasNext && ahead.lastOption.forall(_.isAll)) ahead += partitions.next()
        (ahead.iterator ++ partitions).flatMap(_.iterator)
    }
  }

  private def byPartition(all: Iterator[InternalRow]): Array[ArrayBuffer[InternalRow]] = {
    val placeOf = Projections(Seq(by.partitionIdExpression), columns)
    val ofPartitions = Array.fill(by.numPartitions)(ArrayBuffer.empty[InternalRow])
    all.foreach(row => ofPartitions(placeOf(row).getInt(0)) += row.copy())
    ofPartitions
  }
}
