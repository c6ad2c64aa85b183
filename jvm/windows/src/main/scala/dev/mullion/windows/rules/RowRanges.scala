package dev.mullion.windows.rules

import java.time.Instant
import java.time.temporal.ChronoUnit

import scala.util.Try

import dev.mullion.windows.WindowException
import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.spec.TimeMath

/** The ranges of one row at a time, and the subset that the row enters.
  *
  * {{{
  *   clock before the batch        |
  *   a row's ranges     [--------) |     had closed: the row is too late for it
  *                           [-----+--)  open: the row enters
  *                                 | [----)
  * }}}
  *
  * A row enters the open ranges. If none is open, it is late, and enters all of them if late rows reopen panes. With
  * `reopen each` it enters all in any case. A range that is listed twice is one.
  *
  * Mutable, one per task: no allocation per row.
  *
  * @param before
  *   the event clock before this batch
  */
final class RowRanges(rules: CustomRules, before: Long) extends Serializable {
  private var starts = new Array[Long](4)
  private var ends = new Array[Long](4)
  private var listed = 0
  private var open = 0
  private val reopensEach = rules.late == LatePolicy.ReopenEach

  /** Moves to the next row. */
  def clear(): Unit = { listed = 0; open = 0 }

  /** Adds a range of the row. Open ranges are stored first. */
  def add(start: Long, end: Long): Unit = {
    if (end <= start)
      throw RowRanges.refused(rules, s"ends at ${RowRanges.shown(end)}, and must end after its start", start)
    if (!contains(start, end)) {
      if (listed == starts.length) {
        starts = java.util.Arrays.copyOf(starts, listed * 2)
        ends = java.util.Arrays.copyOf(ends, listed * 2)
      }
      val isOpen = before == BatchClock.BeforeAllTime || before < rules.closeDue(end)
      val at = if (isOpen) open else listed
      starts(listed) = starts(at)
      ends(listed) = ends(at)
      starts(at) = start
      ends(at) = end
      listed += 1
      if (isOpen) open += 1
    }
  }

  /** Rejects a range that is null or contains a null. */
  def addNull(): Unit = throw WindowException.invalid(
    s"A row's list of ranges (${rules.window.ranges}) has a null in it, or a range with a null start or end. A row that " +
      "is in no window has an empty list, or null in place of the list."
  )

  /** True if the row is in no window at all. */
  def isEmpty: Boolean = listed == 0

  /** True if the row is late: in windows, all of which had closed. */
  def isLate: Boolean = listed > 0 && open == 0

  /** The lateness of a late row, by its last range: see `Lateness`. */
  def lateness: Long = {
    var last = Long.MinValue
    var i = 0
    while (i < listed) { last = Math.max(last, ends(i)); i += 1 }
    TimeMath.minus(before, rules.closeDue(last))
  }

  /** The number of ranges that the row enters; for a late row, those that it would reopen. */
  def count: Int = if (open > 0 && !reopensEach) open else listed

  /** True if the `i`th of them had closed. */
  def hadClosed(i: Int): Boolean = i >= open

  /** The number of closed ranges of a row that enters others and does not reopen them. */
  def missed: Int = if (open > 0 && !reopensEach) listed - open else 0

  def start(i: Int): Long = starts(i)

  def end(i: Int): Long = ends(i)

  private def contains(start: Long, end: Long): Boolean = {
    var i = 0
    while (i < listed && (starts(i) != start || ends(i) != end)) i += 1
    i < listed
  }
}

object RowRanges {
  private def refused(rules: CustomRules, why: String, start: Long): WindowException = WindowException.invalid(
    s"A row has the range that starts at ${shown(start)} and $why: a window is [start, end). The ranges are " +
      s"${rules.window.ranges}; correct what computes them, or leave such ranges out of the list."
  )

  /** A time as text, if it has a readable form. */
  private def shown(us: Long): String =
    Try(Instant.EPOCH.plus(us, ChronoUnit.MICROS).toString).getOrElse(s"$us microseconds")
}
