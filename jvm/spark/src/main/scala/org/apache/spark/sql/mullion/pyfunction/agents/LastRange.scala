package org.apache.spark.sql.mullion.pyfunction.agents

import org.apache.spark.sql.mullion.pyfunction.expression.Untranslatable

import dev.mullion.windows.sets.KeptRanges

/** The range of the last access to a windowed table for an event: the value of `current_window()`. Of several ranges of
  * a time it is the one that starts last.
  */
private[agents] final class LastRange {
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

  /** Its start or end, in seconds; unsupported before any access, or outside of ranges. */
  final class Edge(isEnd: Boolean) extends Expression {
    override def compute(): Unit = {
      if (!there) throw Untranslatable
      setFloat((if (isEnd) endUs else startUs) / 1e6)
    }
  }
}
