package org.apache.spark.sql.mullion.python.state

import org.apache.spark.sql.types.{DataType, IntegerType}

/** Where the records of functions lie, by their keys: in the partition of the rows with them, if they are of such.
  *
  * {{{
  *   rows of 'ann'  - hash -> partition 3        what is kept of 'ann'           OfShard
  *   rows of 'bob'  - hash -> partition 0        the clock of a partition        OfPartition
  *                                               a timer of the whole program    OfFirst
  * }}}
  */
trait ShardPlaces extends Serializable {

  /** The type of what rows are distributed by. */
  def kind: DataType

  /** What all rows are distributed by, where they are in one shard. */
  def home: Option[Any]

  def of(key: Array[Byte], isTimer: Boolean): RecordPlace

  /** What a partition has in place of what the partitions had whose keys it has now. */
  def merged(key: Array[Byte], values: Seq[Array[Byte]]): Array[Byte]
}

sealed trait RecordPlace

object RecordPlace {

  /** In the partition of the rows with a shard.
    *
    * @param value
    *   of the type that the places have, as Spark has it within
    */
  final case class OfShard(value: Any) extends RecordPlace

  /** Each partition has one. */
  case object OfPartition extends RecordPlace

  /** The first partition has it. */
  case object OfFirst extends RecordPlace

  /** A key that says nothing of where it lies. */
  final case class Unknown(why: String) extends RecordPlace
}

/** Those of functions that have one shard. */
object OneShard extends ShardPlaces {
  override def kind: DataType = IntegerType

  override def home: Option[Any] = Some(0)

  override def of(key: Array[Byte], isTimer: Boolean): RecordPlace = RecordPlace.OfShard(0)

  override def merged(key: Array[Byte], values: Seq[Array[Byte]]): Array[Byte] = values.head
}
