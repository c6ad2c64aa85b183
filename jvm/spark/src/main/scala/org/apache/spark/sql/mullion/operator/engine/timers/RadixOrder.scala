package org.apache.spark.sql.mullion.operator.engine.timers

import org.apache.spark.unsafe.array.LongArray
import org.apache.spark.unsafe.memory.MemoryBlock
import org.apache.spark.util.collection.unsafe.sort.RadixSort

/** Sorts some thousands of elements by a number each, with Spark's stable radix sort. An element is a number too, such
  * as a position.
  */
private[operator] final class RadixOrder {
  // Pairs of element and number, followed by equal space for the sort.
  private var pairs = RadixOrder.longs(0)
  private var added = 0
  private var first = 0

  def size: Int = added

  def clear(): Unit = added = 0

  def add(thing: Long, number: Long): Unit = {
    if (pairs.size < 4L * (added + 1)) grow()
    pairs.set(2 * added, thing)
    pairs.set(2 * added + 1, number)
    added += 1
  }

  /** Sorts the elements added since the last clear. */
  def sort(): Unit = first = RadixSort.sortKeyPrefixArray(pairs, 0, added, 0, 7, false, true)

  /** The element at an index, once sorted. */
  def apply(place: Int): Long = pairs.get(first + 2 * place)

  private def grow(): Unit = {
    val more = RadixOrder.longs(8 * Math.max(added, 16))
    var i = 0
    while (i < 2 * added) { more.set(i, pairs.get(i)); i += 1 }
    pairs = more
  }
}

private[operator] object RadixOrder {

  /** Sorting this many takes a quarter of a megabyte: more would be a large object for the collector in heaps of 2 GB.
    */
  val AtOnce: Int = 1 << 13

  private def longs(n: Int) = new LongArray(MemoryBlock.fromLongArray(new Array[Long](n)))
}
