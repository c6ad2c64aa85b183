package dev.mullion.windows.rules

import dev.mullion.windows.spec.Duration

/** The options of panes whose rows are processed one by one, in order of arrival or of time. Partial aggregation would
  * lose that order.
  *
  * @param running
  *   whether each row fires each of its panes, with the pane's result just after it
  * @param delayByKey
  *   for event clocks per key: the delay behind the key's largest time, in microseconds
  * @param collect
  *   for panes that collect their rows
  * @param keysFollowWall
  *   whether the clock of a key follows the wall clock while the key has no rows
  * @param lateBehindClock
  *   whether a row behind its key's clock is late even if its pane is open
  * @param inOrderOfTime
  *   whether the rows of a batch are processed in order of time, and of arrival where times are equal
  * @param timesOut
  *   whether panes close after a wall time
  * @param forgetAfter
  *   the wall time without rows after which a key is forgotten, in microseconds; none for never
  */
final case class RowByRow(
    running: Boolean,
    delayByKey: Option[Long],
    collect: Option[Collected],
    keysFollowWall: Boolean = false,
    lateBehindClock: Boolean = false,
    inOrderOfTime: Boolean = false,
    timesOut: Boolean = false,
    forgetAfter: Option[Long] = None
) {

  /** True if panes close by the wall clock. */
  def closesByWall: Boolean = keysFollowWall || timesOut

  /** True if the wall clock affects keys that have no rows. */
  def timedByWall: Boolean = closesByWall || forgetAfter.isDefined

  /** The same for a batch DataFrame, which has closes only. In order of time, each row closes the panes that it has
    * passed, so that a key with many panes holds few of them.
    */
  def onBatch: RowByRow = copy(
    running = false,
    delayByKey = Option.when(inOrderOfTime)(0L),
    keysFollowWall = false,
    lateBehindClock = false
  )

  def describe: String = (
    delayByKey.map(delay => s"each key's own clock, ${Duration.describe(delay)} behind its largest time") ++
      Option.when(keysFollowWall)("and on with the wall clock since") ++
      Option.when(lateBehindClock)("rows behind it late") ++
      Option.when(running)("each row fires its panes") ++ collect.map(_.describe) ++
      forgetAfter.map(after => s"keys without rows for ${Duration.describe(after)} forgotten")
  ).mkString(", ")
}

/** Panes that collect their rows.
  *
  * @param byTime
  *   whether rows are in order of time, and of arrival where times are equal; else of arrival
  * @param name
  *   the column of the result
  * @param maxRows
  *   the limit of rows per pane
  * @param inParts
  *   true if a firing with many rows is several rows of output, each with a part of them
  */
final case class Collected(byTime: Boolean, name: String, maxRows: Long, inParts: Boolean = false) {
  def describe: String = s"rows collected in order of ${if (byTime) "time" else "arrival"}, at most $maxRows a pane"
}
