package org.apache.spark.sql.mullion.operator.engine.aligned

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import dev.mullion.windows.rules.WindowFold
import dev.mullion.windows.sets.SliceSet

/** The accumulators of slices in state. The slices of a key are recorded with the key: see [[KeyedPanes]]. */
private[aligned] trait Slices {

  /** Adds a partial row to a slice.
    *
    * @param key
    *   a row that does not change
    * @param held
    *   the slices of the key, including this one
    * @param isNew
    *   whether the slice is new
    */
  def add(key: UnsafeRow, held: SliceSet, ordinal: Long, isNew: Boolean, row: InternalRow): Unit

  /** Writes additions to state. Must precede reads and removals. */
  def flush(): Unit

  /** The slices of a key in `[from, until)`, in order. The caller closes it. */
  def range(key: UnsafeRow, from: Long, until: Long): SliceScan

  /** Removes those of a key's slices that are before another. */
  def removeBefore(key: UnsafeRow, held: SliceSet, live: Long): Unit

  /** Clears a slice that no other window needs. */
  def clear(key: UnsafeRow, ordinal: Long): Unit
}

/** Iterates over slices of a key; it is on one while `isOn`. */
private[aligned] trait SliceScan extends AutoCloseable {
  def isOn: Boolean

  def ordinal: Long

  /** The complete content of the slice, at rest, without notes; valid until the next one. */
  def sum: UnsafeRow

  def move(): Unit

  /** Copies the content of the slice, because other calls on the partition are made before the next one. */
  def hold(): Unit

  /** Keeps the slices from this one to `last` in the sums of windows, and moves to the next. */
  def keepIn(sums: WindowFold[UnsafeRow], last: Long): Unit =
    while (isOn && ordinal <= last) {
      sums.keep(sum)
      move()
    }
}
