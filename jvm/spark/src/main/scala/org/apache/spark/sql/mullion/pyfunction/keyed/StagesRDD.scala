package org.apache.spark.sql.mullion.pyfunction.keyed

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.streaming.state.StateStoreCoordinatorRef
import org.apache.spark.sql.mullion.state.record.StatePartition
import org.apache.spark.sql.mullion.state.{PartitionOpener, SettingsOfRun}
import org.apache.spark.{OneToOneDependency, Partition, TaskContext}

/** Runs all stages of a partition in one task: first the rows, and the windows on demand, because they read the output
  * of the first stage.
  */
private[keyed] final class StagesRDD(
    data: RDD[InternalRow],
    windows: Seq[RDD[InternalRow]],
    opener: PartitionOpener,
    hadoopConf: SettingsOfRun.Settings,
    @transient private val coordinator: Option[StateStoreCoordinatorRef],
    body: (Int, StatePartition, Iterator[InternalRow], Int => Iterator[InternalRow], TaskContext) => Iterator[
      InternalRow
    ]
) extends RDD[InternalRow](data.context, (data +: windows).map(new OneToOneDependency(_))) {

  override protected def getPartitions: Array[Partition] = {
    val parts = (data +: windows).map(_.partitions)
    require(
      parts.forall(_.length == parts.head.length),
      s"the stages of a task have ${parts.map(_.length).mkString(", ")} partitions"
    )
    Array.tabulate[Partition](parts.head.length)(i => new StagesPartition(i, parts.map(_(i))))
  }

  override def getPreferredLocations(partition: Partition): Seq[String] =
    coordinator.flatMap(_.getLocation(opener.id(partition.index))).toSeq

  override def compute(partition: Partition, context: TaskContext): Iterator[InternalRow] = partition match {
    case stages: StagesPartition =>
      val input = firstParent[InternalRow].iterator(stages.parts.head, context)
      val state = opener.open(partition.index, hadoopConf.value.value)
      val panes = (window: Int) => parent[InternalRow](window + 1).iterator(stages.parts(window + 1), context)
      body(partition.index, state, input, panes, context)
    case other => throw new IllegalArgumentException(s"$other is not a partition of stages")
  }
}

private final class StagesPartition(override val index: Int, val parts: Seq[Partition]) extends Partition
