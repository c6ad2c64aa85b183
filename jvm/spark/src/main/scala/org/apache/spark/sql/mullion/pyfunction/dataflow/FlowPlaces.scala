package org.apache.spark.sql.mullion.pyfunction.dataflow

import org.apache.spark.sql.mullion.pyfunction.state.{RecordPlace, ShardPlaces}
import org.apache.spark.sql.types.{DataType, IntegerType}
import org.apache.spark.unsafe.types.UTF8String

/** The places of the records of a dataflow's steps, by the keys of items. */
private[pyfunction] object FlowPlaces extends ShardPlaces {
  override def kind: DataType = IntegerType

  override def home: Option[Any] = None

  override def of(key: Array[Byte], isTimer: Boolean): RecordPlace =
    RecordPlace.OfShard(FlowOutput.shardOf(UTF8String.fromBytes(key)))

  override def merged(key: Array[Byte], values: Seq[Array[Byte]]): Array[Byte] = values.head
}
