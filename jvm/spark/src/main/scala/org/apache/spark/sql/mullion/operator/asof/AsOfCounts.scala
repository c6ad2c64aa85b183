package org.apache.spark.sql.mullion.operator.asof

/** The counts of a batch in one partition. */
private[asof] final class AsOfCounts {
  var leftsAdded = 0L
  var leftsEmitted = 0L
  var rowsLate = 0L
  var rowsWithoutTime = 0L
  private var next = Long.MaxValue

  /** The next time at which a row is due, in microseconds; `Long.MaxValue` if none waits. */
  def nextDue: Long = next

  def due(time: Long): Unit = next = Math.min(next, time)
}
