package org.apache.spark.sql.mullion.state.btree

/** The end position of the last search among sorted records. A record is usually looked up before it is changed, and
  * consecutive accesses are usually close together.
  *
  * It points to a record, or to the place of a missing one, by three numbers. After a removal it points nowhere, and is
  * only a hint.
  */
private[state] final class LastPosition {
  import LastPosition._

  /** The leaf where the search ended, by its index in the list, and the record's index in the leaf. */
  var leaf = 0
  var at = 0
  private var on = Nothing
  private var a = 0L
  private var b = 0L
  private var c = 0L

  def invalidate(): Unit = on = Nothing

  /** Points to the record with these numbers. */
  def foundRecord(a: Long, b: Long, c: Long): Unit = standOn(Record, a, b, c)

  /** Points to the place of the missing record with these numbers. */
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

private object LastPosition {
  private final val Nothing = 0
  private final val None = 1
  private final val Record = 2
}
