package org.apache.spark.sql.mullion.state.memory

/** Where the last search among sorted records ended, for a record is mostly looked up before it is changed, and what
  * comes in order is found near what came before.
  *
  * It stands on a record, or where none is, by three numbers; once a record is removed it stands nowhere, and is but a
  * hint.
  */
private[state] final class Finger {
  import Finger._

  /** The leaf where the search ended, by its place in the list, and the record's place in it. */
  var leaf = 0
  var at = 0
  private var on = Nothing
  private var a = 0L
  private var b = 0L
  private var c = 0L

  /** Has it stand nowhere. */
  def invalidate(): Unit = on = Nothing

  /** Says that it stands on a record of these numbers. */
  def foundRecord(a: Long, b: Long, c: Long): Unit = standOn(Record, a, b, c)

  /** Says that there is no record of these numbers, and it stands where one would be. */
  def foundNone(a: Long, b: Long, c: Long): Unit = standOn(None, a, b, c)

  def isOnRecord(a: Long, b: Long, c: Long): Boolean = on == Record && isOf(a, b, c)

  def isOnNone(a: Long, b: Long, c: Long): Boolean = on == None && isOf(a, b, c)

  private def isOf(a: Long, b: Long, c: Long) = this.a == a && this.b == b && this.c == c

  private def standOn(what: Int, a: Long, b: Long, c: Long): Unit = {
    on = what
    this.a = a
    this.b = b
    this.c = c
  }
}

private object Finger {
  private final val Nothing = 0
  private final val None = 1
  private final val Record = 2
}
