package dev.mullion

import org.apache.spark.sql.mullion.plan.options.WindowOptions

/** The early firings of an open pane: at an interval, after a number of rows, or both, whichever comes first.
  *
  * A pane fires early at most once per batch, after all rows of the batch are in it. With `eachRow`, each row fires its
  * panes.
  *
  * @param unchanged
  *   whether panes without new rows since their last firing fire at the interval too
  * @throws MullionException
  *   at construction, for an interval or a number of rows that is not positive
  */
final case class Early private (
    interval: Option[Span],
    isByWall: Boolean,
    rows: Option[Long],
    unchanged: Boolean,
    isEachRow: Boolean
) {
  applyTo(WindowOptions()) // raises an error for an invalid interval or count

  /** Also after so many rows since the pane opened or last fired. */
  def orCount(rows: Long): Early = copy(rows = Some(rows))

  /** Panes without a new row fire at the interval too. */
  def evenUnchanged: Early = copy(unchanged = true)

  private[mullion] def applyTo(options: WindowOptions): WindowOptions = {
    val timed = interval.map(_.micros).fold(options) { every =>
      if (isByWall) options.withEarlyByWall(every, unchanged) else options.withEarly(every, unchanged)
    }
    val counted = rows.fold(timed)(timed.withEarlyCount)
    if (isEachRow) counted.withRunning else counted
  }

  override def toString: String = {
    val base = interval.map(of => s"Early.${if (isByWall) "everyWall" else "every"}($of)")
    val counted = rows.map(n => base.fold(s"Early.count($n)")(text => s"$text.orCount($n)")).orElse(base)
    val text = counted.getOrElse(if (isEachRow) "Early.eachRow" else "Early.never")
    if (unchanged) s"$text.evenUnchanged" else text
  }
}

object Early {

  /** No pane fires before it closes. */
  val never: Early = Early(None, isByWall = false, None, unchanged = false, isEachRow = false)

  /** At an interval of the pane's clock: event time while there are rows, and wall time while there are none. The first
    * reading of the watermark starts the intervals: a pane that opened before it counts from it.
    */
  def every(interval: Span): Early = never.copy(interval = Some(interval))

  /** At an interval of the wall clock alone, for dashboards. */
  def everyWall(interval: Span): Early = never.copy(interval = Some(interval), isByWall = true)

  /** After so many rows since the pane opened or last fired. */
  def count(rows: Long): Early = never.orCount(rows)

  /** With each row, as running values. */
  val eachRow: Early = never.copy(isEachRow = true)
}
