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
  * @param keysFollowWall
  *   whether the clock of a key goes on with the wall clock while the key has no rows
  * @param lateBehindClock
  *   whether a row is late that is behind its key's clock, though its pane is open
  */
final case class RowByRow(
    running: Boolean,
    delayByKey: Option[Long],
    collect: Option[Collected],
    keysFollowWall: Boolean = false,
    lateBehindClock: Boolean = false
) {
  def describe: String = (
    delayByKey.map(delay => s"each key's own clock, ${Duration.describe(delay)} behind its largest time") ++
      Option.when(keysFollowWall)("and on with the wall clock since") ++
      Option.when(lateBehindClock)("rows behind it late") ++
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
