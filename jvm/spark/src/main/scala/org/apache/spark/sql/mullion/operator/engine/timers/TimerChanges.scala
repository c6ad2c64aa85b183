package org.apache.spark.sql.mullion.operator.engine.timers

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.record.Family
import org.apache.spark.unsafe.Platform

/** The timers that a batch sets and removes, buffered so that they are written in order of time.
  *
  * Keys are processed in the order of their records, but their timers in state are in order of time. A single change
  * would search all timers. In a sorted batch of some thousands, each position is close to the previous one:
  *
  * {{{
  *   as they come     + 12:04 k1   - 12:01 k2   + 12:07 k2   + 12:02 k7
  *   into state       - 12:01 k2   + 12:02 k7   + 12:04 k1   + 12:07 k2
  * }}}
  *
  * Changes of one timer keep their order.
  *
  * @param dueAt
  *   the column of a timer with its due time
  * @param columns
  *   the number of columns of a timer
  * @param atOnce
  *   the maximum number of buffered changes
  */
private[operator] final class TimerChanges(timers: Family, dueAt: Int, columns: Int, atOnce: Int = RadixOrder.AtOnce) {
  import TimerChanges._

  // The length of each timer, and the timer.
  private var bytes = Array.emptyByteArray
  private var end = 0
  private val order = new RadixOrder
  private val timer = new UnsafeRow(columns)

  def insert(timer: UnsafeRow): Unit = hold(timer, isInsert = 1)

  def remove(timer: UnsafeRow): Unit = hold(timer, isInsert = 0)

  /** Writes the buffered changes to state. */
  def flush(): Unit = {
    order.sort()
    var i = 0
    while (i < order.size) {
      val change = order(i)
      val at = offset((change >> 1).toInt)
      timer.pointTo(bytes, at + Header, Platform.getInt(bytes, at))
      if ((change & 1) == 1) timers.insert(timer, KeyOnly.value) else timers.remove(timer)
      i += 1
    }
    order.clear()
    end = 0
  }

  private def hold(timer: UnsafeRow, isInsert: Int): Unit = {
    val length = timer.getSizeInBytes
    if (order.size == atOnce || (end > 0 && end + Header + length > MostBytes)) flush()
    val next = end + Header + length
    if (next > bytes.length) bytes = Arrays.copyOf(bytes, Math.max(next, 2 * end + 1024))
    Platform.putInt(bytes, offset(end), length)
    timer.writeToMemory(bytes, offset(end) + Header)
    order.add(end.toLong << 1 | isInsert, timer.getLong(dueAt))
    end = next
  }
}

private object TimerChanges {
  // Rows begin at full words.
  private final val Header = 8

  // Fewer long keys are buffered.
  private final val MostBytes = 1 << 23

  private def offset(position: Int): Long = Platform.BYTE_ARRAY_OFFSET.toLong + position
}
