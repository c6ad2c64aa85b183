package org.apache.spark.sql.mullion.checkpoint.savepoint

import java.nio.ByteBuffer

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.mullion.checkpoint.layout.OperatorState
import org.apache.spark.sql.mullion.pyfunction.keyed.KeyedFunctionHeader
import org.apache.spark.sql.mullion.pyfunction.state.{KeyedState, RecordPlace, ShardPlaces, TimerClock}
import org.apache.spark.sql.mullion.state.PartitionOpener
import org.apache.spark.util.SerializableConfiguration

import dev.mullion.MullionException

/** Rewrites the records and timers of functions with state for another number of partitions.
  *
  * {{{
  *   of the rows of a key     to the partition of these, given by Spark's exchange
  *   of a partition           to each partition that may receive its keys, merged there
  * }}}
  *
  * A partition is the remainder of a hash divided by the number of partitions. A key of partition 1 of 2 may therefore
  * be in any of 3, and only in 1 and 3 of 4.
  *
  * @param places
  *   the places of records; if unknown, each stays in its partition
  */
private final class FunctionCopy(
    spark: SparkSession,
    checkpoint: String,
    from: OperatorState[KeyedFunctionHeader],
    places: Option[ShardPlaces]
) {
  import FunctionCopy._

  /** Writes `partitions` partitions through `opener`. Returns the content of each. */
  def write(opener: PartitionOpener, partitions: Int): Seq[StateCopy.Written] = {
    val (known, before) = (places, from.partitions)
    val reader = from.opener(spark, KeyedState.families)
    val conf = spark.sparkContext.broadcast(new SerializableConfiguration(spark.sessionState.newHadoopConf()))
    val where = s"$checkpoint (operator ${from.operator})"
    val records = spark.sparkContext.parallelize(0 until before, before).mapPartitionsWithIndex { (index, _) =>
      val router = known.map(new Router(_, before, partitions, where))
      reader.records(index, conf.value.value).flatMap { case (family, key, value) =>
        KeyedState.recordIn(family, key, value).toSeq.flatMap { record =>
          val to = router.fold(To(Seq(index), isShared = false))(_.of(index, record))
          val bytes = packed(record, to.isShared)
          to.partitions.map(_ -> bytes)
        }
      }
    }
    StateCopy.written(StateCopy.byNumber(records, partitions), opener, conf) { (index, partition, records) =>
      val state = new KeyedState(partition, _ => KeyedState.Never)
      fill(state, records, known)
      val count = state.commit()
      StateCopy.Written(index, StateCopy.versionIdOf(partition), panes = 0L, count)
    }
  }
}

private object FunctionCopy {

  /** The target partitions of a record.
    *
    * @param isShared
    *   whether records with the same key may exist, which are merged
    */
  private final case class To(partitions: Seq[Int], isShared: Boolean)

  /** In a task. */
  private final class Router(places: ShardPlaces, before: Int, after: Int, where: String) {
    private val hashed = UnsafeProjection.create(Seq(before, after).map { partitions =>
      HashPartitioning(Seq(BoundReference(0, places.kind, nullable = true)), partitions).partitionIdExpression
    })
    private val shard = new GenericInternalRow(1)
    private val step = BigInt(before).gcd(after).toInt

    private def partitionsOf(value: Any): (Int, Int) = {
      shard.update(0, value)
      val numbers = hashed(shard)
      (numbers.getInt(0), numbers.getInt(1))
    }

    def of(index: Int, record: KeyedState.Record): To = places.of(record.key, record.timer.isDefined) match {
      case RecordPlace.OfShard(value) =>
        val (was, is) = partitionsOf(value)
        if (was != index) throw StateCopy.misplaced(where, index, was)
        To(Seq(is), isShared = false)
      case RecordPlace.OfFirst      => To(if (index == 0) Seq(0) else Nil, isShared = true)
      case RecordPlace.OfPartition  => To(ofPartition(index), isShared = true)
      case RecordPlace.Unknown(why) =>
        throw MullionException.unsupported(
          s"In $where partition $index has a record that is $why, so its partition is unknown. " +
            "A savepoint with another number of partitions is not possible. Leave out partitions, or start the " +
            "program with a new checkpoint."
        )
    }

    private def ofPartition(index: Int): Seq[Int] = places.home.map(partitionsOf) match {
      case None                            => (index % step) until after by step
      case Some((was, is)) if was == index => Seq(is)
      case Some(_) if index == 0           => Seq(0)
      case Some(_)                         => Nil
    }
  }

  // Whether it is shared, the number of its clock or -1, its due time, the length of its key, key and value.
  private val Head = 1 + 1 + 8 + 4

  private def packed(record: KeyedState.Record, isShared: Boolean): Array[Byte] = {
    val (clock, due) = record.timer.fold((-1, 0L)) { case (of, at) => (of.number, at) }
    ByteBuffer
      .allocate(Head + record.key.length + record.value.length)
      .put(if (isShared) 1.toByte else 0.toByte)
      .put(clock.toByte)
      .putLong(due)
      .putInt(record.key.length)
      .put(record.key)
      .put(record.value)
      .array
  }

  private def unpacked(bytes: Array[Byte]): (Boolean, KeyedState.Record) = {
    val head = ByteBuffer.wrap(bytes)
    val (isShared, clock, due, length) = (head.get == 1, head.get.toInt, head.getLong, head.getInt)
    val timer = TimerClock.all.find(_.number == clock).map(_ -> due)
    val at = Head + length
    (isShared, KeyedState.Record(timer, bytes.slice(Head, at), bytes.slice(at, bytes.length)))
  }

  private def fill(state: KeyedState, records: Iterator[Array[Byte]], places: Option[ShardPlaces]): Unit = {
    // There are few: one per table and timer of a program.
    val shared = mutable.LinkedHashMap.empty[(Option[TimerClock], ByteBuffer), Seq[KeyedState.Record]]
    records.map(unpacked).foreach {
      case (true, record) =>
        val of = record.timer.map(_._1) -> ByteBuffer.wrap(record.key)
        shared(of) = shared.getOrElse(of, Nil) :+ record
      case (false, record) => put(state, record)
    }
    shared.values.foreach { same =>
      val one = same.head
      val merged = one.timer match {
        // The earliest due time counts.
        case Some((clock, _)) => one.copy(timer = Some(clock -> same.flatMap(_.timer).map(_._2).min))
        case None             => one.copy(value = places.get.merged(one.key, same.map(_.value)))
      }
      put(state, merged)
    }
  }

  private def put(state: KeyedState, record: KeyedState.Record): Unit = record.timer match {
    case Some((clock, due)) => state.putTimer(clock, due, record.key)
    case None               => state.put(record.key, record.value, there = Some(false))
  }
}
