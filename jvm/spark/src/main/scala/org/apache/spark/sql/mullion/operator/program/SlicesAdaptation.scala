package org.apache.spark.sql.mullion.operator.program

import scala.collection.mutable
import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.operator.engine.aligned.{SliceBlock, SlidingPanes}
import org.apache.spark.sql.mullion.operator.engine.timers.{KeyRecord, TimedKey}
import org.apache.spark.sql.mullion.state.record.StatePartition
import org.apache.spark.sql.types.DataType

/** Converts the accumulators of slices to those of other aggregates. Slices with their own record keep it, and where
  * the new accumulators fit into blocks, the next rows put them there. Where they do not fit, blocks are split into
  * records.
  *
  * @param columns
  *   the number of columns of an old accumulator
  * @param buffers
  *   the types of its columns, in the header's form
  * @param made
  *   converts an old accumulator; the result is valid until the next call
  */
private[program] final class SlicesAdaptation(
    program: WindowProgram,
    partition: StatePartition,
    columns: Int,
    buffers: Seq[String],
    made: UnsafeRow => UnsafeRow
) {
  private val spec = program.families.head
  private val slices = partition.family(spec)
  private val ordinalAt = spec.key.length - 1
  private val sum = new UnsafeRow(columns)
  private val hadBlocks = {
    val types = buffers.map(text => Try(DataType.fromDDL(text)).toOption)
    types.forall(_.isDefined) && SliceBlock.mayHold(types.flatten)
  }

  def adapt(): Unit = {
    val apart = mutable.ArrayBuffer.empty[(UnsafeRow, UnsafeRow)]
    val becomes = Option.when(SlidingPanes.keepsBlocks(program))(
      new SliceBlock(program.functions.map(_.aggBufferAttributes.length).sum)
    )
    val records = slices.all()
    try
      records.foreach { record =>
        val (key, value) = (record.key.untilNextCall, record.value.untilNextCall)
        if (!hadBlocks || !SliceBlock.isBlock(value, columns)) slices.update(key, made(value))
        else
          becomes match {
            case Some(block) =>
              block.begin(key.getLong(ordinalAt))
              SliceBlock.foreachOf(value, sum)((slot, of) => block.insert(slot, made(of)))
              slices.update(key, block.record)
            // Inserted after the scan, which might return them otherwise.
            case None => apart += key.copy() -> value.copy()
          }
      }
    finally records.close()
    if (apart.nonEmpty) takeApart(apart)
  }

  /** Writes each slice that its key still has into its own record. */
  private def takeApart(blocks: Iterable[(UnsafeRow, UnsafeRow)]): Unit = {
    val keys = partition.family(program.families.find(_.name == "keys").get)
    val toKey = new TimedKey(program.keys.map(_.dataType), spec.order).toKey
    blocks.foreach { case (key, value) =>
      val keySlices = SlidingPanes.slicesOf(program.rules, KeyRecord.panes(keys.look(toKey(key))))
      val first = key.getLong(ordinalAt)
      slices.remove(key)
      SliceBlock.foreachOf(value, sum) { (slot, of) =>
        if (keySlices.contains(first + slot)) {
          key.setLong(ordinalAt, first + slot)
          slices.insert(key, made(of))
        }
      }
    }
  }
}
