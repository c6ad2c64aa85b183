package org.apache.spark.sql.mullion.python.folds

import dev.mullion.windows.sets.KeptRanges

/** The range that a windowed table was last read or changed in for an event: what `current_window()` gives. Of several
  * ranges of a time it is the one that starts last.
  */
private[folds] final class LastRange {
  private var there = false
  private var startUs = 0L
  private var endUs = 0L

  def forget(): Unit = there = false

  def touch(ranges: KeptRanges, us: Long): Unit = {
    there = ranges.holds(us)
    if (there) {
      startUs = ranges.lastStart(us)
      endUs = startUs + ranges.size
    }
  }

  /** Its start or end, in seconds; where no table has been touched, or in no range, odd. */
  final class Edge(isEnd: Boolean) extends Expression {
    override def compute(): Unit = {
      if (!there) throw Odd
      setFloat((if (isEnd) endUs else startUs) / 1e6)
    }
  }
}
