package org.apache.spark.sql.mullion.operator.engine.timers

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.mullion.expressions.rows.Projections
import org.apache.spark.sql.mullion.state.record.RecordOrder
import org.apache.spark.sql.types.DataType

/** Keys with one or two times. For the same key only the times are changed, in place. */
private[operator] final class TimedKey(keyTypes: Seq[DataType], order: RecordOrder) {
  private val times = order match {
    case RecordOrder.ByFirst(of) => of
    case _                       => 1
  }
  private val timesFirst = order.isInstanceOf[RecordOrder.ByFirst]
  private val timesAt = if (timesFirst) 0 else keyTypes.length
  private val projection = {
    val key = keyTypes.zipWithIndex.map { case (t, i) => BoundReference(i, t, nullable = true) }
    val time = Seq.fill(times)(Literal(0L))
    Projections(if (timesFirst) time ++ key else key ++ time)
  }
  private val noKey = new UnsafeRow(0)
  private var of = noKey
  private var row = noKey

  /** The row is reused by the next call.
    *
    * @param key
    *   a row that does not change
    */
  def apply(time: Long, key: UnsafeRow): UnsafeRow = {
    if (of ne key) {
      row = projection(key)
      of = key
    }
    row.setLong(timesAt, time)
    row
  }

  def apply(event: Long, wall: Long, key: UnsafeRow): UnsafeRow = {
    apply(event, key).setLong(timesAt + 1, wall)
    row
  }

  /** The first time of such a row. */
  def timeOf(row: UnsafeRow): Long = row.getLong(timesAt)

  /** Both times. */
  def timesOf(row: UnsafeRow): (Long, Long) = (row.getLong(timesAt), row.getLong(timesAt + 1))

  /** The key without its times. */
  def toKey: UnsafeProjection = {
    val from = if (timesFirst) times else 0
    Projections(keyTypes.zipWithIndex.map { case (t, i) => BoundReference(from + i, t, nullable = true) })
  }
}
