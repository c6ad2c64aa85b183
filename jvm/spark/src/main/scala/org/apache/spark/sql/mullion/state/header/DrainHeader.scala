package org.apache.spark.sql.mullion.state.header

import java.time.Instant

import org.apache.spark.sql.catalyst.util.DateTimeUtils

import dev.mullion.windows.rules.Drain

/** The meaning of the state while a new window replaces one that still has panes.
  *
  * {{{
  *   batch        16           17 (the first with the new window)      ..   a restart after it is over
  *   header       StateHeader  DrainHeader                                  StateHeader, of the new window
  *   records of   panes        panes           and next.panes               panes, which were next.panes
  * }}}
  *
  * Times are microseconds.
  *
  * @param draining
  *   of the old window
  * @param next
  *   of the new window
  */
final case class DrainHeader(draining: StateHeader, next: StateHeader, boundary: Long, until: Long)
    extends OperatorHeader {
  def drain: Drain = Drain(boundary, until)

  override def windows: Seq[(Option[String], StateHeader)] =
    Seq(Some(DrainHeader.Draining) -> draining, Some(DrainHeader.Next) -> next)

  override def first: Option[FirstRecords] = draining.first

  override def sharedBy: Seq[String] = next.keys

  override def withOwnPlaces: DrainHeader = copy(draining = draining.withOwnPlaces, next = next.withOwnPlaces)

  override def describe: String = s"${next.describe} after ${draining.describe}"

  /** The end of the old window, as text. */
  def inWords: String =
    s"rows from ${DrainHeader.instant(boundary)} on enter the new one, and the panes of the old one are all closed when the " +
      s"clock comes to ${DrainHeader.instant(until)}"

  /** The header of the new window after the old one is gone: windows that end by the boundary stay closed. */
  def alone: StateHeader = next.copy(closedTo = Some(boundary))

  override def differences(other: OperatorHeader): Seq[String] = other match {
    case same: DrainHeader if same.drain == drain =>
      draining.differences(same.draining).map(what => s"of the window of before $what") ++ next.differences(same.next)
    case _ => Seq(s"window was [$describe] and is now [${other.describe}]")
  }

  override def changeTo(other: OperatorHeader): StateChange = other match {
    case same: DrainHeader if same.drain == drain =>
      StateChange(draining, same.draining, isAlone = false).saying("of the window of before ") ++
        StateChange(next, same.next, isAlone = false)
    case one: StateHeader if one.drained.contains(boundary) =>
      StateChange.goesOn(s"the window of before (${draining.describe}) has closed all its panes") ++
        StateChange(alone, one, isAlone = true)
    case _ => StateChange(Nil, differences(other))
  }

  override def after(was: OperatorHeader, clockBefore: Option[Long]): OperatorHeader = this

  override def typedAs(other: OperatorHeader, windows: Set[String]): OperatorHeader = this
}

object DrainHeader {

  /** The name of the old window, whose records keep their names. */
  val Draining = ""

  /** The name of the new window during the replacement. */
  val Next = "next"

  def instant(us: Long): Instant = DateTimeUtils.microsToInstant(us)
}
