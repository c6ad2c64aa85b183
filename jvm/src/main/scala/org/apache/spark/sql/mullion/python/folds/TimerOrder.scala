package org.apache.spark.sql.mullion.python.folds

/** Timers of several tables in one list, each table's in an order of its own: a table whose clock lags leaves its
  * timers alone, however far the others are. As in the Python package (`faust/tables/timer_order.py`).
  *
  * {{{
  *   due    order * 2^56  +  time + 2^55         order from 1 to 126; two tables may share one
  *   due    time                                 as it was before there were orders; of the years -313 to 4253
  * }}}
  *
  * Times that are further than 2^55 microseconds (1,141 years) from 1970 are there as if they were that far.
  */
private[folds] object TimerOrder {
  private val Width = 1L << 56
  private val Middle = Width / 2
  private val Orders = 126

  /** The order of a table, by what its timers begin with. */
  def of(timers: Array[Byte]): Int = 1 + (timers(0) & 0xff) % Orders

  def at(order: Int, us: Long): Long = order * Width + Math.max(1 - Middle, Math.min(us, Middle - 1)) + Middle

  /** The time that a timer is due. */
  def timeOf(due: Long): Long = if (due < Width) due else due % Width - Middle

  /** Where the timers of an order are that are due from a time to another: first those from before there were orders.
    */
  def ranges(order: Int, from: Long, until: Long): Seq[(Long, Long)] =
    Seq((Long.MinValue, Math.min(until, Width - 1)), (at(order, from), at(order, until)))
}
