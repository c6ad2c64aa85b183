package org.apache.spark.sql.mullion.exec

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.mullion.expressions.Projections
import org.apache.spark.sql.mullion.state.{PartitionOpener, SettingsOfRun}
import org.apache.spark.sql.mullion.state.records.StatePartition

/** Runs an operator's work on all partitions of its state in one task, on one after the other: each is opened once the
  * one before it is committed. `StateRDD` does it in a task for each.
  *
  * If the task fails between two, the first has been committed and the second has not, as where one of two tasks fails:
  * the batch is done again from the version that both had before it.
  *
  * @param rows
  *   the rows of all partitions, in one, and few
  * @param columns
  *   their columns
  */
private[exec] final class PartitionsInTurnRDD(
    rows: RDD[InternalRow],
    by: HashPartitioning,
    columns: Seq[Attribute],
    opener: PartitionOpener,
    hadoopConf: SettingsOfRun.Settings,
    body: (Int, StatePartition, Iterator[InternalRow]) => Iterator[InternalRow]
) extends RDD[InternalRow](rows) {

  override protected def getPartitions: Array[Partition] = firstParent[InternalRow].partitions

  /** None: state is where the session is. */
  override def getPreferredLocations(partition: Partition): Seq[String] = {
    (0 until by.numPartitions).foreach(opener.begins)
    Nil
  }

  override def compute(partition: Partition, context: TaskContext): Iterator[InternalRow] = {
    // The input first, so that no store is held while an upstream operator of this task still works.
    val ofPartitions = byPartition(firstParent[InternalRow].iterator(partition, context))
    ofPartitions.iterator.zipWithIndex.flatMap { case (own, index) =>
      body(index, opener.open(index, hadoopConf.value.value), own.iterator)
    }
  }

  private def byPartition(all: Iterator[InternalRow]): Array[ArrayBuffer[InternalRow]] = {
    val placeOf = Projections(Seq(by.partitionIdExpression), columns)
    val ofPartitions = Array.fill(by.numPartitions)(ArrayBuffer.empty[InternalRow])
    all.foreach(row => ofPartitions(placeOf(row).getInt(0)) += row.copy())
    ofPartitions
  }
}
