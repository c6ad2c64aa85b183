package org.apache.spark.sql.mullion.operator.engine

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.mullion.state.record.{FamilySpec, RecordOrder, StatePartition}
import org.apache.spark.sql.types._

import dev.mullion.windows.sets.EndCounts

/** The totals of a partition, stored with its state so that no batch has to count. */
final class PartitionTotals(partition: StatePartition) {
  import PartitionTotals._

  private val family = partition.family(PartitionTotals.family)
  private val (existed, was, endsBefore) = {
    val stored = family.get(PartitionTotals.key)
    if (stored.isAbsent) (false, (0L, 0L), None)
    else (true, (stored.getLong(0), stored.getLong(1)), endsIn(stored.untilNextCall))
  }

  /** The number of open panes before this batch. */
  def panes: Long = was._1

  /** The open panes before this batch by the end of their windows, unless they were not counted. */
  def ends: Option[EndCounts] =
    if (panes == 0) Some(new EndCounts) else endsBefore.map(EndCounts.fromBytes)

  /** Resets the totals. Returns them. */
  def clear(): (Long, Long) = add(-was._1, -was._2)

  /** Adds this batch's changes. Returns the new totals: open panes, records in state.
    *
    * @param ends
    *   the open panes after this batch by the end of their windows, if they are counted: `EndCounts.toBytes`
    */
  def add(panes: Long, records: Long, ends: Option[Array[Byte]] = None): (Long, Long) = {
    val now = (was._1 + panes, was._2 + records)
    if (now != was || !sameBytes(ends, endsBefore)) {
      writer.reset()
      writer.zeroOutNullBytes()
      writer.write(0, now._1)
      writer.write(1, now._2)
      ends.fold(writer.setNullAt(EndsAt))(bytes => writer.write(EndsAt, bytes))
      val row = writer.getRow
      if (existed) family.update(PartitionTotals.key, row) else family.insert(PartitionTotals.key, row)
    }
    now
  }

  private lazy val writer = new UnsafeRowWriter(PartitionTotals.family.value.length)

  private def sameBytes(a: Option[Array[Byte]], b: Option[Array[Byte]]): Boolean =
    a.isDefined == b.isDefined && a.forall(java.util.Arrays.equals(_, b.get))
}

object PartitionTotals {

  /** The only key: the number 0. */
  private val key: UnsafeRow = UnsafeRow.createFromByteArray(16, 1)

  val family: FamilySpec = FamilySpec(
    "totals",
    key = new StructType().add("id", IntegerType, nullable = false),
    value = new StructType()
      .add("panes", LongType, nullable = false)
      .add("records", LongType, nullable = false)
      .add("ends", BinaryType),
    RecordOrder.Unordered,
    countAt = Some(1)
  )

  private val EndsAt = 2

  /** Rows of older checkpoints have two columns. */
  private val BytesOfTwo = 24

  private def endsIn(row: UnsafeRow): Option[Array[Byte]] =
    Option.when(row.getSizeInBytes > BytesOfTwo && !row.isNullAt(EndsAt))(row.getBinary(EndsAt))
}
