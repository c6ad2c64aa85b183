package org.apache.spark.sql.mullion.exec.panes.keys

import org.apache.spark.unsafe.array.LongArray
import org.apache.spark.unsafe.memory.MemoryBlock
import org.apache.spark.util.collection.unsafe.sort.RadixSort

/** Some thousands of things in order of a number each, by Spark's radix sort, which keeps those of one number in the
  * order in which they came. A thing is a number too, such as where it lies.
  */
private[exec] final class RadixOrder {
  // Of each thing what it is and its number, and behind them as much again for the sort to work in.
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

  /** Puts in order what was added since it was cleared. */
  def sort(): Unit = first = RadixSort.sortKeyPrefixArray(pairs, 0, added, 0, 7, false, true)

  /** The thing at a place, once sorted. */
  def apply(place: Int): Long = pairs.get(first + 2 * place)

  private def grow(): Unit = {
    val more = RadixOrder.longs(8 * Math.max(added, 16))
    var i = 0
    while (i < 2 * added) { more.set(i, pairs.get(i)); i += 1 }
    pairs = more
  }
}

private[exec] object RadixOrder {

  /** To sort so many takes a quarter of a megabyte: more at once is large for the collector, in heaps of 2 GB. */
  val AtOnce: Int = 1 << 13

  private def longs(n: Int) = new LongArray(MemoryBlock.fromLongArray(new Array[Long](n)))
}
