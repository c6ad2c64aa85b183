package org.apache.spark.sql.mullion.pyfunction.state

import org.apache.spark.sql.types.{DataType, IntegerType}

/** The partitions of functions' records, by their keys: that of the rows with the same shard, if they have one.
  *
  * {{{
  *   rows of 'ann'  - hash -> partition 3        the state of 'ann'              OfShard
  *   rows of 'bob'  - hash -> partition 0        the clock of a partition        OfPartition
  *                                               a timer of the entire program   OfFirst
  * }}}
  */
trait ShardPlaces extends Serializable {

  /** The type of the distribution key. */
  def kind: DataType

  /** The distribution key of all rows, if they are in one shard. */
  def home: Option[Any]

  def of(key: Array[Byte], isTimer: Boolean): RecordPlace

  /** The record of a partition, merged from the partitions whose keys it now has. */
  def merged(key: Array[Byte], values: Seq[Array[Byte]]): Array[Byte]
}

sealed trait RecordPlace

object RecordPlace {

  /** In the partition of the rows with a shard.
    *
    * @param value
    *   of type `kind`, in Spark's internal form
    */
  final case class OfShard(value: Any) extends RecordPlace

  /** One in each partition. */
  case object OfPartition extends RecordPlace

  /** In the first partition. */
  case object OfFirst extends RecordPlace

  /** A key that does not determine its partition. */
  final case class Unknown(why: String) extends RecordPlace
}

/** For functions with a single shard. */
object OneShard extends ShardPlaces {
  override def kind: DataType = IntegerType

  override def home: Option[Any] = Some(0)

  override def of(key: Array[Byte], isTimer: Boolean): RecordPlace = RecordPlace.OfShard(0)

  override def merged(key: Array[Byte], values: Seq[Array[Byte]]): Array[Byte] = values.head
}
