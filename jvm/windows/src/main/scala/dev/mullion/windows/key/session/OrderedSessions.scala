package dev.mullion.windows.key.session

import java.nio.ByteBuffer

import dev.mullion.windows.clock.BatchClock
import dev.mullion.windows.rules.OrderedRules
import dev.mullion.windows.sets.Varint
import dev.mullion.windows.spec.TimeMath

/** The open windows of one key whose bounds depend on the order of its rows (see
  * [[dev.mullion.windows.spec.OrderedWindow]]), in order of time. They do not overlap, except at the time of a row that
  * ends one.
  *
  * {{{
  *   open             |--------e    |------|        `e` ended the first one
  *   locate(ts)          ^                          joins it, and ends nothing: it is not its last row
  *   locate(ts)                 ^                   begins a window, or moves the start of the next one back
  * }}}
  *
  * A row is first located, which changes nothing, and then added unless it is late.
  */
final class OrderedSessions private (rules: OrderedRules, open: java.util.ArrayList[OpenSessions.Session])
    extends OpenSessions(open) {
  import OrderedSessions.Ordered

  // The result of `locate`: the windows of the list that the row joins to one, and that one's properties.
  private var from = 0
  private var to = 0
  private var first = 0L
  private var last = 0L
  private var reach = 0L
  private var isEnded = false
  private var locatedEnd = 0L

  private def at(i: Int): Ordered = sessions.get(i).asInstanceOf[Ordered]

  /** Determines the window of a row.
    *
    * @param gap
    *   the row's, > 0
    * @param ends
    *   whether a window ends with the row
    * @param mayEndOpen
    *   whether it may end a window that is open: not if the end would be before the clock
    */
  def locate(ts: Long, gap: Long, ends: Boolean, mayEndOpen: Boolean): Unit = {
    val before = lastStarting(ts)
    first = ts
    last = ts
    reach = TimeMath.plus(ts, gap)
    isEnded = ends
    from = before + 1
    to = from
    if (before >= head) {
      val window = at(before)
      if (rules.continues(window.first, window.last, window.reach, window.isEnded, ts)) {
        from = before
        first = window.first
        isEnded = window.isEnded || (ends && mayEndOpen && ts >= window.last)
        last = Math.max(last, window.last)
        reach = Math.max(reach, window.reach)
      }
    }
    while (to < sessions.size && rules.merges(first, reach, isEnded, at(to).first, at(to).end)) {
      val window = at(to)
      isEnded = window.isEnded
      last = window.last
      reach = Math.max(reach, window.reach)
      to += 1
    }
    val next = if (to < sessions.size) at(to).first else Long.MaxValue
    locatedEnd = rules.end(first, last, reach, isEnded, next)
  }

  /** True if the located row joins an open window. */
  def joinsOpen: Boolean = to > from

  /** The end of the located row's window. */
  def end: Long = locatedEnd

  /** Adds the located row. Returns its window, with the slots of all windows that became part of it, in order of time.
    *
    * @param slot
    *   the slot of a new window
    * @param clock
    *   of the batch, for a new window
    */
  def add(slot: Long, clock: BatchClock): OpenSessions.Session = {
    val slots =
      if (!joinsOpen) Array(slot)
      else if (to == from + 1) at(from).slots
      else Array.range(from, to).flatMap(at(_).slots)
    val window =
      if (joinsOpen) merge(from, to, first, locatedEnd, rows = 1L).asInstanceOf[Ordered]
      else {
        val opened = new Ordered(first, locatedEnd, isOld = false, clock.now, clock.wall)
        opened.rows = 1L
        sessions.add(from, opened)
        opened
      }
    window.last = last
    window.reach = reach
    window.isEnded = isEnded
    window.end = locatedEnd
    window.slots = slots
    window
  }

  override def toBytes(withFirings: Boolean, withIds: Boolean): Array[Byte] = {
    val buffer = ByteBuffer.allocate(41 * size + bytesOfFirings(withFirings, withIds))
    var previous = 0L
    foreach { session =>
      val window = session.asInstanceOf[Ordered]
      Varint.putSigned(buffer, window.first - previous)
      Varint.putSigned(buffer, window.last - window.first)
      Varint.putSigned(buffer, window.reach - window.last)
      Varint.putSigned(buffer, window.end - window.last)
      buffer.put(if (window.isEnded) 1: Byte else 0: Byte)
      previous = window.last
      window.put(buffer, withFirings, withIds)
    }
    java.util.Arrays.copyOf(buffer.array, buffer.position())
  }

  /** The index of the last window that starts at or before `ts`, or an index before the first. Rows are mostly in
    * order, so the search begins at the end.
    */
  private def lastStarting(ts: Long): Int = {
    var low = head
    var high = sessions.size
    if (high > low && at(high - 1).first <= ts) low = high
    while (low < high) {
      val middle = (low + high) >>> 1
      if (at(middle).first <= ts) low = middle + 1 else high = middle
    }
    low - 1
  }
}

object OrderedSessions {

  /** @param last
    *   the time of its last row
    * @param reach
    *   its end by the gaps of its rows alone
    * @param isEnded
    *   whether its last row ended it
    */
  private final class Ordered(opened: Long, until: Long, isOld: Boolean, eventReading: Long, wallReading: Long)
      extends OpenSessions.Session(opened, until, isOld, 0, eventReading, wallReading, 0L, false) {
    var last: Long = opened
    var reach: Long = until
    var isEnded: Boolean = false
  }

  def empty(rules: OrderedRules): OrderedSessions = new OrderedSessions(rules, new java.util.ArrayList())

  def fromBytes(rules: OrderedRules, bytes: Array[Byte], withFirings: Boolean, withIds: Boolean): OrderedSessions = {
    val set = empty(rules)
    val buffer = ByteBuffer.wrap(bytes)
    var previous = 0L
    while (buffer.hasRemaining) {
      val first = previous + Varint.getSigned(buffer)
      val last = first + Varint.getSigned(buffer)
      val reach = last + Varint.getSigned(buffer)
      val window = new Ordered(first, last + Varint.getSigned(buffer), isOld = true, 0L, 0L)
      window.last = last
      window.reach = reach
      window.isEnded = buffer.get() == 1
      previous = last
      window.take(buffer, withFirings, withIds)
      set.sessions.add(window)
    }
    set
  }
}
