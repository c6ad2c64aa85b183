package org.apache.spark.sql.mullion.state.btree

/** The place where a cached record is written: a plain number, because each record has one.
  *
  * {{{
  *   Unwritten     not written, or changed since
  *   Alone         under its own key
  *   Changed       under its own key, and to be overwritten
  *   in a segment  the segment's number and the record's number in it
  * }}}
  */
private[state] final class Place private[Place] (val number: Long) extends AnyVal {
  def isInSegment: Boolean = number >= 0
  def isAlone: Boolean = number <= -2L
  def isToWrite: Boolean = number == -1L || number == -3L

  /** The segment's number, if it is in a segment. */
  def segment: Long = number >> Place.SlotBits

  /** The record's number in its segment. */
  def slot: Int = (number & Place.MostSlots).toInt
}

private[state] object Place {
  private final val SlotBits = 10

  /** The greatest number that a record has in its segment. */
  final val MostSlots = (1 << SlotBits) - 1

  val Unwritten: Place = new Place(-1L)
  val Alone: Place = new Place(-2L)
  val Changed: Place = new Place(-3L)

  def inSegment(segment: Long, slot: Int): Place = new Place(segment << SlotBits | slot)

  def of(number: Long): Place = new Place(number)
}
