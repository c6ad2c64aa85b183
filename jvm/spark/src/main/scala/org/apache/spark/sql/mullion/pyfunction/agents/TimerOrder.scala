package org.apache.spark.sql.mullion.pyfunction.agents

/** Timers of several tables in one list, with separate orders: a table whose clock lags does not touch its timers,
  * however far the others are. As in the Python package (`faust/tables/timer_order.py`).
  *
  * {{{
  *   due    order * 2^56  +  time + 2^55         order from 1 to 126; two tables may share one
  *   due    time                                 the form before there were orders; of the years -313 to 4253
  * }}}
  *
  * Times further than 2^55 microseconds (1,141 years) from 1970 are clamped.
  */
private[agents] object TimerOrder {
  private val Width = 1L << 56
  private val Middle = Width / 2
  private val Orders = 126

  /** The order of a table, by the prefix of its timers. */
  def of(timers: Array[Byte]): Int = 1 + (timers(0) & 0xff) % Orders

  def at(order: Int, us: Long): Long = order * Width + Math.max(1 - Middle, Math.min(us, Middle - 1)) + Middle

  /** The time at which a timer is due. */
  def timeOf(due: Long): Long = if (due < Width) due else due % Width - Middle

  /** The ranges of the timers of an order that are due between two times: first those from before there were orders. */
  def ranges(order: Int, from: Long, until: Long): Seq[(Long, Long)] =
    Seq((Long.MinValue, Math.min(until, Width - 1)), (at(order, from), at(order, until)))
}
