package dev.mullion.windows.sets

import java.nio.ByteBuffer

import dev.mullion.windows.spec.{SliceGrid, TimeMath}

/** The slices of a key that have rows, as a sorted list of runs of consecutive ordinals. A key with rows in every slice
  * needs one run.
  *
  * Mutable, one per current key; `toBytes`/`fromBytes` is its form in state (a pair of varints per run).
  */
final class SliceSet private (private var from: Array[Long], private var to: Array[Long], private var runs: Int) {

  def isEmpty: Boolean = runs == 0

  def first: Long = { require(runs > 0, "an empty set has no first slice"); from(0) }

  def last: Long = { require(runs > 0, "an empty set has no last slice"); to(runs - 1) }

  def contains(ordinal: Long): Boolean = {
    val run = runAtOrAfter(ordinal)
    run < runs && from(run) <= ordinal
  }

  /** The least slice at or after `ordinal`, or `SliceSet.None`. */
  def atOrAfter(ordinal: Long): Long = {
    val run = runAtOrAfter(ordinal)
    if (run == runs) SliceSet.None else Math.max(from(run), ordinal)
  }

  /** The greatest slice before `ordinal`, or `SliceSet.None`. */
  def before(ordinal: Long): Long = {
    val run = runAtOrAfter(ordinal)
    if (run < runs && from(run) < ordinal) ordinal - 1 else if (run == 0) SliceSet.None else to(run - 1)
  }

  /** Adds a slice. Returns whether it was new. */
  def add(ordinal: Long): Boolean = {
    val run = runAtOrAfter(ordinal)
    if (run < runs && from(run) <= ordinal) false
    else {
      val joinsBefore = run > 0 && to(run - 1) == ordinal - 1
      val joinsAfter = run < runs && from(run) == ordinal + 1
      if (joinsBefore && joinsAfter) { to(run - 1) = to(run); removeRun(run) }
      else if (joinsBefore) to(run - 1) = ordinal
      else if (joinsAfter) from(run) = ordinal
      else insertRun(run, ordinal)
      true
    }
  }

  /** Removes every slice before `ordinal`. */
  def removeBefore(ordinal: Long): Unit = {
    val run = runAtOrAfter(ordinal)
    if (run > 0) {
      System.arraycopy(from, run, from, 0, runs - run)
      System.arraycopy(to, run, to, 0, runs - run)
      runs -= run
    }
    if (runs > 0 && from(0) < ordinal) from(0) = ordinal
  }

  /** The first window at or after `window` that holds one of these slices, or `SliceSet.None`. */
  def nextWindow(grid: SliceGrid, window: Long): Long = {
    val slice = atOrAfter(grid.firstSlice(window))
    if (slice == SliceSet.None) SliceSet.None else Math.max(window, grid.firstWindow(slice))
  }

  /** The number of windows at or after `window` that hold one of these slices. */
  def countWindows(grid: SliceGrid, window: Long): Long = {
    var count = 0L
    var counted = window
    var run = 0
    while (run < runs) {
      val low = Math.max(counted, grid.firstWindow(from(run)))
      val high = grid.lastWindow(to(run))
      if (high >= low) { count += high - low + 1; counted = high + 1 }
      run += 1
    }
    count
  }

  /** The members among `count` slices from `ordinal` on, as bits: the first is the lowest.
    *
    * @param count
    *   64 at most
    */
  def bits(ordinal: Long, count: Int): Long = {
    var all = 0L
    var run = runAtOrAfter(ordinal)
    val last = TimeMath.plus(ordinal, count - 1L)
    while (run < runs && from(run) <= last) {
      val low = Math.max(ordinal, from(run))
      val length = (Math.min(last, to(run)) - low + 1).toInt
      all |= (-1L >>> (64 - length)) << (low - ordinal)
      run += 1
    }
    all
  }

  /** The number of these slices at or after `ordinal`. */
  def countFrom(ordinal: Long): Long = {
    var count = 0L
    var run = runAtOrAfter(ordinal)
    while (run < runs) { count += to(run) - Math.max(ordinal, from(run)) + 1; run += 1 }
    count
  }

  def toBytes: Array[Byte] = {
    val buffer = ByteBuffer.allocate(runs * 20)
    var previous = 0L
    var run = 0
    while (run < runs) {
      Varint.putSigned(buffer, from(run) - previous)
      Varint.putSigned(buffer, to(run) - from(run))
      previous = to(run)
      run += 1
    }
    java.util.Arrays.copyOf(buffer.array, buffer.position())
  }

  def toSeq: Seq[Long] = (0 until runs).flatMap(i => from(i) to to(i))

  override def toString: String = (0 until runs).map(i => s"${from(i)}..${to(i)}").mkString("SliceSet(", ", ", ")")

  /** The first run whose end is at or after `ordinal`. Rows are mostly in order, so the search begins at the end. */
  private def runAtOrAfter(ordinal: Long): Int =
    if (runs == 0 || to(runs - 1) < ordinal) runs
    else {
      var low = 0
      var high = runs - 1
      while (low < high) {
        val middle = (low + high) >>> 1
        if (to(middle) < ordinal) low = middle + 1 else high = middle
      }
      low
    }

  private def insertRun(at: Int, ordinal: Long): Unit = {
    if (runs == from.length) {
      from = java.util.Arrays.copyOf(from, runs * 2)
      to = java.util.Arrays.copyOf(to, runs * 2)
    }
    System.arraycopy(from, at, from, at + 1, runs - at)
    System.arraycopy(to, at, to, at + 1, runs - at)
    from(at) = ordinal
    to(at) = ordinal
    runs += 1
  }

  private def removeRun(at: Int): Unit = {
    System.arraycopy(from, at + 1, from, at, runs - at - 1)
    System.arraycopy(to, at + 1, to, at, runs - at - 1)
    runs -= 1
  }
}

object SliceSet {

  /** The result of a search without a match. */
  val None: Long = Long.MaxValue

  def empty: SliceSet = new SliceSet(new Array[Long](2), new Array[Long](2), 0)

  def fromBytes(bytes: Array[Byte]): SliceSet = {
    // A run takes at least two bytes; the rest is spare room.
    val most = bytes.length / 2 + 2
    val (from, to) = (new Array[Long](most), new Array[Long](most))
    val numbers = new Varint.Numbers(bytes)
    var previous = 0L
    var runs = 0
    while (numbers.hasMore) {
      from(runs) = previous + numbers.next()
      previous = from(runs) + numbers.next()
      to(runs) = previous
      runs += 1
    }
    new SliceSet(from, to, runs)
  }
}
