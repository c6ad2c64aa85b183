package org.apache.spark.sql.mullion.operator.engine.aligned

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.operator.engine.accumulators.Accumulators
import org.apache.spark.sql.mullion.operator.engine.timers.TimedKey
import org.apache.spark.sql.mullion.state.record.Family

import dev.mullion.windows.rules.WindowFold
import dev.mullion.windows.sets.SliceSet

/** Slices that share records with their neighbours: see [[SliceBlock]]. A window is read from few records, and the rows
  * of a batch need few lookups.
  *
  * {{{
  *   slices  (key, first ordinal)      -> accumulators, and the bits of their slices
  * }}}
  *
  * A record exists while its key has one of its slices. Closed slices stay in it until it is rewritten, or all are
  * closed.
  *
  * Changed blocks of one key are buffered until `flush`.
  */
private[aligned] final class SlicesInBlocks(slices: Family, timed: TimedKey, accumulators: Accumulators, columns: Int)
    extends Slices {
  import SliceBlock.{firstOf, slotOf, Slots}

  private val noKey = new UnsafeRow(0)
  private var key = noKey
  private var blocks = Array.fill(2)(new Held)
  private var count = 0
  // The block of the last addition.
  private var last = blocks(0)

  /** A block with rows of this batch. */
  private final class Held {
    val block = new SliceBlock(columns)
    // Whether state has its record.
    var isStored = false
  }

  override def add(of: UnsafeRow, held: SliceSet, ordinal: Long, isNew: Boolean, row: InternalRow): Unit = {
    if (key ne of) {
      flush()
      key = of
    }
    val slot = slotOf(ordinal)
    val block = find(held, ordinal, if (isNew) 1 << slot else 0)
    if (block.has(slot)) accumulators.add(block(slot), row)
    else block.insert(slot, accumulators.rest(accumulators.open(row)))
  }

  private def find(held: SliceSet, ordinal: Long, added: Int): SliceBlock = {
    val first = firstOf(ordinal)
    if (count == 0 || last.block.first != first) {
      var i = 0
      while (i < count && blocks(i).block.first != first) i += 1
      if (i == count) begin(first, held.bits(first, Slots).toInt & ~added)
      last = blocks(i)
    }
    last.block
  }

  /** @param wanted
    *   its slices that the key has in state
    */
  private def begin(first: Long, wanted: Int): Unit = {
    if (count == blocks.length) blocks = blocks ++ Array.fill(count)(new Held)
    val next = blocks(count)
    count += 1
    next.block.begin(first)
    val record = slices.look(timed(first, key))
    next.isStored = !record.isAbsent
    if (next.isStored) next.block.read(record.untilNextCall, wanted)
    val missing = wanted & ~next.block.sliceBits
    if (missing != 0) takeEach(next.block, missing)
  }

  /** Adds slices in the form before there were blocks. */
  private def takeEach(block: SliceBlock, missing: Int): Unit = {
    var remaining = missing
    while (remaining != 0) {
      val slot = Integer.numberOfTrailingZeros(remaining)
      remaining &= remaining - 1
      val at = timed(block.first + slot, key)
      val sum = slices.get(at)
      if (sum.isAbsent) throw new IllegalStateException(s"no record of slice ${block.first + slot}")
      block.insert(slot, sum.untilNextCall)
      slices.remove(at)
    }
  }

  override def flush(): Unit = {
    var i = 0
    while (i < count) {
      val entry = blocks(i)
      val at = timed(entry.block.first, key)
      if (entry.isStored) slices.update(at, entry.block.record) else slices.insert(at, entry.block.record)
      i += 1
    }
    count = 0
    key = noKey
  }

  override def range(of: UnsafeRow, from: Long, until: Long): SliceScan = new SliceScan {
    // The slices do not change until the windows that are read from them have been emitted.
    private val scan = slices.look(timed(firstOf(from), of).copy(), timed(until, of))
    private val row = new UnsafeRow(columns)
    private val width = SliceBlock.widthOf(columns)
    // The remaining slices of the current record.
    private var record = row
    private var first = 0L
    private var remaining = 0
    private var place = 0L
    // The slices that are added to a sum at once, of one record.
    private var taken = 0
    private val addTaken: UnsafeRow => UnsafeRow = accumulators.addAllTo(_, sum, Integer.bitCount(taken))
    nextRecord()
    while (isOn && ordinal < from) move()

    override def isOn: Boolean = remaining != 0

    override def ordinal: Long = first + Integer.numberOfTrailingZeros(remaining)

    override def sum: UnsafeRow = {
      row.pointTo(record.getBaseObject, place, width)
      row
    }

    override def move(): Unit = {
      remaining &= remaining - 1
      place += width
      if (remaining == 0) nextRecord()
    }

    override def hold(): Unit = if (isOn) {
      val copy = record.copy()
      place += copy.getBaseOffset - record.getBaseOffset
      record = copy
    }

    override def keepIn(sums: WindowFold[UnsafeRow], last: Long): Unit =
      while (isOn && ordinal <= last)
        if (sums.keeps) {
          taken = SliceBlock.upTo(remaining, last - first)
          sums.keepAll(addTaken)
          val count = Integer.bitCount(taken)
          remaining &= ~taken
          place += count * width
          if (remaining == 0) nextRecord()
        } else {
          sums.keep(sum)
          move()
        }

    private def nextRecord(): Unit = if (scan.next()) {
      record = scan.value.untilNextCall
      first = timed.timeOf(scan.key.untilNextCall)
      remaining = SliceBlock.heldBy(record, columns)
      place = record.getBaseOffset
    }

    override def close(): Unit = scan.close()
  }

  override def removeBefore(of: UnsafeRow, held: SliceSet, live: Long): Unit = {
    var ordinal = if (held.isEmpty) SliceSet.None else held.first
    while (ordinal < live) {
      val first = firstOf(ordinal)
      // Not the first of the next block: that may be after the end of time.
      val last = first + (Slots - 1)
      val at = timed(first, of)
      val record = slices.look(at)
      if (!record.isAbsent && SliceBlock.isBlock(record.untilNextCall, columns)) {
        if (last < live || held.bits(live, (last - live).toInt + 1) == 0L) slices.remove(at)
        ordinal = if (last < live) held.atOrAfter(last + 1) else SliceSet.None
      } else {
        // Those from before there were blocks have a record each.
        slices.remove(timed(ordinal, of))
        ordinal = held.atOrAfter(ordinal + 1)
      }
    }
  }

  override def clear(key: UnsafeRow, ordinal: Long): Unit =
    throw new IllegalStateException(
      "slices of several windows are in blocks, and a firing takes nothing from them away"
    )
}
