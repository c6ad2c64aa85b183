package org.apache.spark.sql.mullion.operator.engine.aligned

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.operator.engine.accumulators.{Accumulators, PaneSums}
import org.apache.spark.sql.mullion.operator.engine.timers.TimedKey
import org.apache.spark.sql.mullion.state.record.Family

import dev.mullion.windows.sets.SliceSet

/** Slices with one record each:
  *
  * {{{
  *   slices  (key, ordinal)      -> accumulator
  * }}}
  *
  * @param tooLarge
  *   the error for an accumulator that exceeds the limit of a pane, in a slice of a key with these slices
  */
private[aligned] final class EachSlice(
    slices: Family,
    timed: TimedKey,
    accumulators: Accumulators,
    sums: PaneSums,
    tooLarge: (UnsafeRow, SliceSet, Long, UnsafeRow) => Throwable
) extends Slices {

  override def add(of: UnsafeRow, held: SliceSet, ordinal: Long, isNew: Boolean, row: InternalRow): Unit = {
    val key = timed(ordinal, of)
    def toState(work: InternalRow): UnsafeRow = {
      val rest = sums.store(key, work)
      if (sums.isTooLarge(rest)) throw tooLarge(of, held, ordinal, rest)
      rest
    }
    if (isNew) slices.insert(key, toState(accumulators.open(row)))
    else {
      val work = accumulators.load(slices.get(key).untilNextCall)
      accumulators.add(work, row)
      slices.update(key, toState(work))
    }
  }

  override def flush(): Unit = ()

  override def range(key: UnsafeRow, from: Long, until: Long): SliceScan = new SliceScan {
    private val scan = slices.range(timed(from, key).copy(), timed(until, key))
    private var isOnSlice = false
    // The key and the value of its record, if they were copied.
    private var copied = Option.empty[(UnsafeRow, UnsafeRow)]
    private var at = 0L
    move()

    override def isOn: Boolean = isOnSlice

    override def ordinal: Long = at

    override def sum: UnsafeRow = copied match {
      case None                   => sums.complete(sums.keyThroughout(scan.key), scan.value.untilNextCall)
      case Some((heldKey, value)) => sums.complete(heldKey, value)
    }

    override def hold(): Unit = if (isOnSlice && copied.isEmpty) copied = Some((scan.key.copy(), scan.value.copy()))

    override def move(): Unit = {
      copied = None
      isOnSlice = scan.next()
      if (isOnSlice) at = timed.timeOf(scan.key.untilNextCall)
    }

    override def close(): Unit = scan.close()
  }

  override def removeBefore(key: UnsafeRow, held: SliceSet, live: Long): Unit = {
    var ordinal = if (held.isEmpty) SliceSet.None else held.first
    while (ordinal < live) {
      sums.drop(timed(ordinal, key))
      slices.remove(timed(ordinal, key))
      ordinal = held.atOrAfter(ordinal + 1)
    }
  }

  override def clear(of: UnsafeRow, ordinal: Long): Unit = {
    val key = timed(ordinal, of)
    val work = accumulators.load(slices.get(key).untilNextCall)
    sums.clear(key, work)
    slices.update(key, sums.store(key, work))
  }
}
