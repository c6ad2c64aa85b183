package org.apache.spark.sql.mullion.state

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.streaming.state.StateStoreCoordinatorRef
import org.apache.spark.sql.mullion.state.record.StatePartition
import org.apache.spark.{Partition, TaskContext}

/** Runs an operator's tasks against its state, preferably where the state is already loaded. Unlike Spark's
  * `StateStoreRDD`, it uses the operator's own provider.
  *
  * @param output
  *   caches the rows for further actions on the batch, if there may be any
  */
private[mullion] final class StateRDD(
    data: RDD[InternalRow],
    opener: PartitionOpener,
    hadoopConf: SettingsOfRun.Settings,
    @transient private val coordinator: Option[StateStoreCoordinatorRef],
    body: (Int, StatePartition, Iterator[InternalRow]) => Iterator[InternalRow],
    output: Option[BatchOutput]
) extends RDD[InternalRow](data) {

  override protected def getPartitions: Array[Partition] = data.partitions

  override def getPreferredLocations(partition: Partition): Seq[String] =
    coordinator.flatMap(_.getLocation(opener.id(partition.index))).toSeq

  override def compute(partition: Partition, context: TaskContext): Iterator[InternalRow] = {
    def run = {
      // The input first, so that the store is not held while an upstream operator of this task still works.
      val input = data.iterator(partition, context)
      body(partition.index, opener.open(partition.index, hadoopConf.value.value), input)
    }
    output.fold(run)(_.rows(partition.index)(run).iterator)
  }
}
