package org.apache.spark.sql.mullion.state.btree

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.mullion.state.record.{FamilySpec, KeyOrder, RecordBytes, WordOrder}
import org.apache.spark.unsafe.Platform

/** Keys that can be derived from the three numbers of their records and need no storage: keys of one 8-byte column,
  * with or without a time.
  *
  * {{{
  *   numbers   12:00   -91   0                  (time, the word's place in order, whether it is null)
  *   key       [nulls, 8][time, 8][word, 8]     the family determines the order of the columns
  * }}}
  *
  * The word's place in order is the word with its bytes reversed: see [[WordOrder]].
  *
  * @param keyAt
  *   the column of the word
  * @param timeAt
  *   the column of the time, if there is one
  * @param timeIsFirst
  *   whether the time is the first of the numbers, and not the last
  */
private[state] final class ImplicitKeys private (keyAt: Int, timeAt: Option[Int], timeIsFirst: Boolean) {
  private val timeOffset = timeAt.fold(-1)(8 + 8 * _)
  private val keyOffset = 8 + 8 * keyAt
  private val isNull = 1L << keyAt

  /** The number of bytes of a key. */
  val length: Int = 8 + 8 * (1 + timeAt.size)

  /** Writes the key of these numbers, and points a row to it. */
  def write(a: Long, b: Long, c: Long, row: UnsafeRow, room: Array[Byte]): Unit = {
    val nulls = if (timeIsFirst) c else b
    Platform.putLong(room, RecordBytes.offset(0), if (nulls == 0L) 0L else isNull)
    Platform.putLong(room, RecordBytes.offset(keyOffset), WordOrder.wordOf(if (timeIsFirst) b else a))
    if (timeOffset >= 0) Platform.putLong(room, RecordBytes.offset(timeOffset), if (timeIsFirst) a else c)
    row.pointTo(room, length)
  }
}

private[state] object ImplicitKeys {

  /** The derivation for a family, if its numbers identify its keys. */
  def of(spec: FamilySpec): Option[ImplicitKeys] = {
    import RecordsFamily._
    val times = timesOf(spec)
    Option.when(times < 2 && KeyOrder.isWord(keyTypes(spec)))(
      new ImplicitKeys(keyOf(spec), Option.when(times == 1)(timeOf(spec)), timeIsFirst = spec.times.nonEmpty)
    )
  }

  // The size of a key of two columns.
  private final val Most = 24

  /** A buffer for a key. It is not part of the leaf, because several threads may read one. */
  def room(): Array[Byte] = new Array[Byte](Most)
}
