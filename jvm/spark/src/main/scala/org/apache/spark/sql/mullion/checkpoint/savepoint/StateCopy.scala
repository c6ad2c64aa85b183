package org.apache.spark.sql.mullion.checkpoint.savepoint

import java.nio.ByteBuffer

import org.apache.spark.Partitioner
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.{RDD, ShuffledRDD}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.mullion.checkpoint.layout.OperatorState
import org.apache.spark.sql.mullion.operator.engine.{PaneCounts, PartitionTotals}
import org.apache.spark.sql.mullion.operator.program.{OperatorProgram, TogetherProgram, TogetherWindow, WindowProgram}
import org.apache.spark.sql.mullion.state.PartitionOpener
import org.apache.spark.sql.mullion.state.record.{FamilySpec, StatePartition}
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.Platform
import org.apache.spark.util.SerializableConfiguration

import dev.mullion.MullionException
import dev.mullion.windows.clock.BatchClock

/** Rewrites the records of an operator's state for another number of partitions.
  *
  * {{{
  *   a task reads partition 0 of 2 ──┐            ┌── a task writes partition 0 of 3
  *                                   ├─ shuffle ──┼── a task writes partition 1 of 3
  *   a task reads partition 1 of 2 ──┘            └── a task writes partition 2 of 3
  * }}}
  *
  * A record belongs to the partition of its key's rows in Spark's exchange. The rest of a partition:
  *
  * {{{
  *   totals                     counted by each writing task
  *   segments and their marks   not copied: each record is written under its own key
  *   ids of versions            not copied: new ids, as in a new checkpoint
  * }}}
  *
  * Clocks and watermarks are not in partitions, but in Spark's logs.
  *
  * @param from
  *   the existing state
  * @param placed
  *   the rule for the partition of a record
  */
private final class StateCopy(
    spark: SparkSession,
    checkpoint: String,
    from: OperatorState[_],
    program: OperatorProgram,
    placed: StateCopy.Placed = StateCopy.ByKey
) {
  import StateCopy._

  val to: OperatorProgram = program match {
    case one: WindowProgram       => one
    case several: TogetherProgram =>
      several.copy(windows = several.windows.map(w => w.copy(place = w.name)), places = None)
    case other => throw new IllegalStateException(s"${other.describe} keeps no panes")
  }

  if (program.distributed.isEmpty && placed == ByKey)
    throw MullionException.unsupported(
      s"Operator ${from.operator} of $checkpoint (${program.describe}) keeps its state where a function before it has put " +
        "the rows, so a savepoint is not possible. Start the query with a new checkpointLocation."
    )

  // By their numbers among those that are read. Records of removed windows do not exist.
  private val kinds: Map[Int, Kind] = (for {
    (was, number) <- program.families.zipWithIndex if was != PartitionTotals.family
    is <- becomes(was)
  } yield {
    if (was.value != is.value || was.key.toSet != is.key.toSet)
      throw new IllegalStateException(s"${was.name} is kept as ${was.key} and ${is.key}, ${was.value} and ${is.value}")
    number -> Kind(to.families.indexOf(is), was.key, is.key, keysIn(was))
  }).toMap

  /** The kind of record after the copy: each window has its records under its own name. */
  private def becomes(was: FamilySpec): Option[FamilySpec] = (program, to) match {
    case (read: TogetherProgram, written: TogetherProgram) =>
      read.windows.zip(written.windows).flatMap { case (a, b) => a.families.zip(b.families) }.collectFirst {
        case (here, there) if here.name == was.name => there
      }
    case _ => to.families.find(_.name == was.name)
  }

  /** The shuffle expressions of a record's rows, over the key of the record. */
  private def keysIn(family: FamilySpec): Seq[Expression] = placed match {
    case ByShard(shard) => shard
    case _              => ownKeysIn(family)
  }

  private def ownKeysIn(family: FamilySpec): Seq[Expression] = program match {
    case several: TogetherProgram =>
      val at = several.windows.indexWhere(_.families.exists(_.name == family.name))
      val window = several.windows(at)
      several.keys.map { key =>
        if (key.exprId == several.number.exprId) Literal(at)
        else
          ownKey(window, key).fold[Expression](Literal(None.orNull, key.dataType))(columnOf(family, window.program, _))
      }
    case one: WindowProgram => one.keys.indices.map(columnOf(family, one, _))
    case other              => throw new IllegalStateException(s"${other.describe} keeps no panes")
  }

  private def ownKey(window: TogetherWindow, shared: Attribute): Option[Int] = window.program.keys.indices.find { i =>
    window.narrow(i) match {
      case same: Attribute => same.exprId == shared.exprId
      case _               => false
    }
  }

  private def columnOf(family: FamilySpec, window: WindowProgram, key: Int): Expression = {
    val at = family.key.fieldIndex(s"key$key")
    BoundReference(at, window.keys(key).dataType, nullable = true)
  }

  /** Writes `partitions` partitions through `opener`. Returns the content of each. */
  def write(opener: PartitionOpener, partitions: Int): Seq[Written] = {
    val (copied, families, writes, stays) = (kinds, to.families, to, placed == Stay)
    require(!stays || partitions == from.partitions, s"records stay, and $partitions are not ${from.partitions}")
    val reader = from.opener(spark, program.families)
    val conf = spark.sparkContext.broadcast(new SerializableConfiguration(spark.sessionState.newHadoopConf()))
    val (before, where) = (from.partitions, s"$checkpoint (operator ${from.operator})")
    val records = spark.sparkContext.parallelize(0 until before, before).mapPartitionsWithIndex { (index, _) =>
      val kinds = copied.map { case (number, kind) => number -> new Reader(kind, before, partitions) }
      reader.records(index, conf.value.value).collect {
        case (family, key, value) if kinds.contains(family) =>
          val kind = kinds(family)
          val (was, is) = if (stays) (index, index) else kind.partitions(key)
          if (was != index) throw misplaced(where, index, was)
          is -> packed(kind.number, kind.key(key), value)
      }
    }
    written(byNumber(records, partitions), opener, conf) { (index, partition, records) =>
      fill(partition, families, records)
      finish(index, partition, writes)
    }
  }
}

private[checkpoint] object StateCopy {

  /** The rule for the partition of a record. */
  sealed trait Placed

  /** The partition of its key's rows. */
  case object ByKey extends Placed

  /** Its current partition, determined by the functions around the window. */
  case object Stay extends Placed

  /** The partition of the shard of such functions. */
  final case class ByShard(shard: Seq[Expression]) extends Placed

  private[checkpoint] def misplaced(where: String, is: Int, wanted: Int) = MullionException.unsupported(
    s"In $where partition $is has a record that would be in partition $wanted by its key: the rows were not " +
      "distributed by Spark's hash of their keys. A savepoint is not possible."
  )

  /** The result of a writing task.
    *
    * @param checkpointId
    *   of the version, if the checkpoint has ids
    */
  final case class Written(partition: Int, checkpointId: Option[String], panes: Long, records: Long)

  /** Distributes records that have their partition's number. */
  private[checkpoint] def byNumber(records: RDD[(Int, Array[Byte])], partitions: Int): RDD[Array[Byte]] =
    new ShuffledRDD[Int, Array[Byte], Array[Byte]](records, new ByNumber(partitions)).map(_._2)

  /** Runs `write` for each partition of `from`, to fill and commit a new partition of state. */
  private[checkpoint] def written[T](
      from: RDD[T],
      opener: PartitionOpener,
      conf: Broadcast[SerializableConfiguration]
  )(write: (Int, StatePartition, Iterator[T]) => Written): Seq[Written] = from
    .mapPartitionsWithIndex { (index, records) =>
      val partition = opener.empty(index, conf.value.value)
      Iterator(write(index, partition, records))
    }
    .collect()
    .sortBy(_.partition)
    .toSeq

  /** A kind of record.
    *
    * @param number
    *   among those that are written
    * @param keys
    *   the shuffle expressions of its rows
    */
  private final case class Kind(number: Int, was: StructType, is: StructType, keys: Seq[Expression])

  /** In a task. */
  private final class Reader(kind: Kind, before: Int, after: Int) {
    private val hashed =
      UnsafeProjection.create(Seq(before, after).map(HashPartitioning(kind.keys, _).partitionIdExpression))
    private val rewritten = Option.when(kind.was.map(_.name) != kind.is.map(_.name))(
      UnsafeProjection.create(kind.is.map { field =>
        BoundReference(kind.was.fieldIndex(field.name), field.dataType, field.nullable): Expression
      })
    )

    def number: Int = kind.number

    /** The previous and the new partition of a record. */
    def partitions(key: UnsafeRow): (Int, Int) = {
      val numbers = hashed(key)
      (numbers.getInt(0), numbers.getInt(1))
    }

    def key(key: UnsafeRow): UnsafeRow = rewritten.fold(key)(_(key))
  }

  /** A record in transit: the number of its family, the length of its key, key and value. */
  private val Head = 8

  private[checkpoint] def packed(family: Int, key: UnsafeRow, value: UnsafeRow): Array[Byte] = {
    val bytes = new Array[Byte](Head + key.getSizeInBytes + value.getSizeInBytes)
    ByteBuffer.wrap(bytes).putInt(family).putInt(key.getSizeInBytes)
    key.writeToMemory(bytes, Platform.BYTE_ARRAY_OFFSET + Head)
    value.writeToMemory(bytes, Platform.BYTE_ARRAY_OFFSET + Head + key.getSizeInBytes)
    bytes
  }

  private[checkpoint] def fill(partition: StatePartition, families: Seq[FamilySpec], records: Iterator[Array[Byte]]) = {
    val opened = families.map(partition.family)
    val keys = families.map(of => new UnsafeRow(of.key.length))
    val values = families.map(of => new UnsafeRow(of.value.length))
    records.foreach { bytes =>
      val head = ByteBuffer.wrap(bytes)
      val (family, length) = (head.getInt(), head.getInt())
      val (key, value) = (keys(family), values(family))
      key.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + Head, length)
      value.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + Head + length, bytes.length - Head - length)
      opened(family).insert(key, value)
    }
  }

  /** Counts the content of a partition, records the totals, and commits. */
  private[checkpoint] def finish(index: Int, partition: StatePartition, program: OperatorProgram): Written = {
    val records = partition.rowsAdded
    val panes = program.engine(BatchClock.Inspection, partition, new PaneCounts).openPanes().size.toLong
    new PartitionTotals(partition).add(panes, records)
    partition.commit()
    Written(index, versionIdOf(partition), panes, records)
  }

  /** The id of the version that a partition has just committed, if it has one. */
  private[checkpoint] def versionIdOf(partition: StatePartition): Option[String] =
    partition.store.getStateStoreCheckpointInfo().stateStoreCkptId

  private final class ByNumber(override val numPartitions: Int) extends Partitioner {
    override def getPartition(key: Any): Int = key match {
      case number: Int => number
      case other       => throw new IllegalArgumentException(s"$other is not a number of a partition")
    }
  }
}
