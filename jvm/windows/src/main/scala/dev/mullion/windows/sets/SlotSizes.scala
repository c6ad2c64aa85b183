package dev.mullion.windows.sets

import java.nio.ByteBuffer

import scala.collection.mutable

/** The number of rows in each slot of one key, so that a pane with too many fails as they arrive, not when it closes.
  */
final class SlotSizes private (sizes: mutable.LongMap[Long]) {

  /** Counts a row. Returns the slot's new number of rows. */
  def add(slot: Long): Long = {
    val size = sizes.getOrElse(slot, 0L) + 1
    sizes.update(slot, size)
    size
  }

  /** The number of rows in a slot. */
  def of(slot: Long): Long = sizes.getOrElse(slot, 0L)

  def remove(slot: Long): Unit = sizes -= slot

  def toBytes: Array[Byte] = {
    val buffer = ByteBuffer.allocate(sizes.size * 20)
    sizes.foreachEntry { (slot, size) =>
      Varint.putSigned(buffer, slot)
      Varint.putSigned(buffer, size)
    }
    java.util.Arrays.copyOf(buffer.array, buffer.position())
  }
}

object SlotSizes {
  def empty: SlotSizes = new SlotSizes(mutable.LongMap.empty)

  def fromBytes(bytes: Array[Byte]): SlotSizes = {
    val sizes = mutable.LongMap.empty[Long]
    val buffer = ByteBuffer.wrap(bytes)
    while (buffer.hasRemaining) sizes.update(Varint.getSigned(buffer), Varint.getSigned(buffer))
    new SlotSizes(sizes)
  }
}
