package org.apache.spark.sql.mullion.operator.engine

import dev.mullion.windows.sets.EndCounts

/** The open panes of a partition after a batch, by the end of their windows. They are stored with the partition's
  * totals, so a batch only adds its changes. Where they were not stored, as after a savepoint or a changed query, the
  * first batch counts all open panes.
  */
private[operator] object OpenEnds {

  /** @param before
    *   the counts before the batch, if they are stored
    * @param openPanes
    *   all open panes, from state
    */
  def after(before: Option[EndCounts], counts: PaneCounts)(openPanes: => Iterator[OpenPane]): EndCounts =
    before.fold(of(openPanes))(_.merge(counts.ends))

  def of(openPanes: Iterator[OpenPane]): EndCounts = {
    val ends = new EndCounts
    openPanes.foreach(_.end.foreach(ends.add(_)))
    ends
  }
}
