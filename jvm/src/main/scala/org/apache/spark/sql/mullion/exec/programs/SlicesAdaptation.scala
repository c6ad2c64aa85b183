package org.apache.spark.sql.mullion.exec.programs

import scala.collection.mutable
import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.exec.panes.grid.{SliceBlock, SlidingPanes}
import org.apache.spark.sql.mullion.exec.panes.keys.{KeyRecord, TimedKey}
import org.apache.spark.sql.mullion.state.records.StatePartition
import org.apache.spark.sql.types.DataType

/** Makes the accumulators of slices those of other aggregates. Slices that had a record each keep it, and where the new
  * accumulators can lie in blocks, the next rows put them there. Where they cannot, blocks are taken apart.
  *
  * @param columns
  *   how many an accumulator had
  * @param buffers
  *   the types of its columns, as a header says them
  * @param made
  *   an accumulator of now from one of before; it stands until the next call
  */
private[programs] final class SlicesAdaptation(
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
            // Put in once all are read, for what is put in would be read too.
            case None => apart += key.copy() -> value.copy()
          }
      }
    finally records.close()
    if (apart.nonEmpty) takeApart(apart)
  }

  /** Gives each slice that its key still has a record of its own. */
  private def takeApart(blocks: Iterable[(UnsafeRow, UnsafeRow)]): Unit = {
    val keys = partition.family(program.families.find(_.name == "keys").get)
    val toKey = new TimedKey(program.keys.map(_.dataType), spec.order).toKey
    blocks.foreach { case (key, value) =>
      val held = SlidingPanes.slicesOf(program.rules, KeyRecord.panes(keys.look(toKey(key))))
      val first = key.getLong(ordinalAt)
      slices.remove(key)
      SliceBlock.foreachOf(value, sum) { (slot, of) =>
        if (held.contains(first + slot)) {
          key.setLong(ordinalAt, first + slot)
          slices.insert(key, made(of))
        }
      }
    }
  }
}
