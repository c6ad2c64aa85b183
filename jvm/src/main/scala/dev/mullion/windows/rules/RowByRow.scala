package dev.mullion.windows.rules

import dev.mullion.windows.spec.Duration

/** What panes do whose rows are worked on one by one, in order of arrival: there is no partial aggregation then, since
  * it would lose that order.
  *
  * @param running
  *   whether each row fires each of its panes, with what the pane holds just after it
  * @param delayByKey
  *   where each key has an event clock of its own: how far it is behind the key's largest time, in microseconds
  * @param collect
  *   where panes hold their rows
  */
final case class RowByRow(running: Boolean, delayByKey: Option[Long], collect: Option[Collected]) {
  def describe: String = (
    delayByKey.map(delay => s"each key's own clock, ${Duration.describe(delay)} behind its largest time") ++
      Option.when(running)("each row fires its panes") ++ collect.map(_.describe)
  ).mkString(", ")
}

/** Panes that hold their rows.
  *
  * @param byTime
  *   whether they are in order of time, and of arrival where times are equal; else of arrival
  * @param name
  *   the column of the result
  * @param maxRows
  *   the most rows that a pane may have
  */
final case class Collected(byTime: Boolean, name: String, maxRows: Long) {
  def describe: String = s"rows collected in order of ${if (byTime) "time" else "arrival"}, at most $maxRows a pane"
}
