package org.apache.spark.sql.mullion.exec.panes.grid

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import dev.mullion.windows.rules.WindowFold
import dev.mullion.windows.sets.SliceSet

/** The accumulators of slices in state. Which slices a key has is known of the key: see [[KeyedPanes]]. */
private[grid] trait Slices {

  /** Adds a partial row to a slice.
    *
    * @param key
    *   a row that stays as it is
    * @param held
    *   the slices of the key, among them this one
    * @param isNew
    *   whether the key had nothing in it
    */
  def add(key: UnsafeRow, held: SliceSet, ordinal: Long, isNew: Boolean, row: InternalRow): Unit

  /** Has state hold what was added. Comes before slices are read or removed. */
  def flush(): Unit

  /** The slices of a key from one on and before another, in order. The caller closes it. */
  def range(key: UnsafeRow, from: Long, until: Long): SliceScan

  /** Removes the slices of a key that are before another, of those that it holds. */
  def removeBefore(key: UnsafeRow, held: SliceSet, live: Long): Unit

  /** Takes away what a slice holds that no other window needs. */
  def clear(key: UnsafeRow, ordinal: Long): Unit
}

/** Goes through slices of a key; it stands on one while `isOn`. */
private[grid] trait SliceScan extends AutoCloseable {
  def isOn: Boolean

  def ordinal: Long

  /** What the slice holds in all, at rest, but for notes: it stands until the next one is gone to. */
  def sum: UnsafeRow

  def move(): Unit

  /** Has sums of windows keep the slices from this one on that come no later than `last`, and goes to the next. */
  def keepIn(sums: WindowFold[UnsafeRow], last: Long): Unit =
    while (isOn && ordinal <= last) {
      sums.keep(sum)
      move()
    }
}
