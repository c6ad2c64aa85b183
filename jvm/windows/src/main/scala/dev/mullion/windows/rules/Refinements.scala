package dev.mullion.windows.rules

import dev.mullion.windows.WindowException
import dev.mullion.windows.spec.Setting

/** Firings other than the close and the interval, and whether a firing clears the rows that it emits.
  *
  * {{{
  *   open                      end                        end + allowedLateness
  *    |------ early, early -----|----------- rows ------------|
  *                           on_time     update  update     close
  * }}}
  *
  * `on_time` and `update` are Flink's: there a pane fires at its end and again for each late row within the lateness;
  * here once for all rows of a batch. A session that grows has a new end, and is on time there again.
  *
  * @param count
  *   fires `early` after this number of rows since the pane opened or last fired; none for never. Where rows are
  *   processed one by one, a pane fires with each row that reaches the number; else once per batch, with all of its
  *   rows
  * @param onTime
  *   whether panes fire when the clock reaches their end, and after that in each batch that has rows for them
  * @param accumulate
  *   whether a firing contains all rows of a pane; else the rows since the previous firing
  * @param empty
  *   whether windows without rows close too, for known keys: from the first window with a row on
  * @param ids
  *   whether firings report the ids of their panes; see [[PaneId]]
  * @param atEnd
  *   whether all open panes close when the input of the query ends, and no state is kept for another run
  * @param remembers
  *   whether panes may have fired under earlier options, so that their firings are still counted
  * @param generation
  *   the first batch of the window, in a query that began with other windows; it is part of the ids
  * @param forward
  *   whether windows without rows repeat the values of the window before, if they close
  */
final case class Refinements(
    count: Option[Long],
    onTime: Boolean,
    accumulate: Boolean,
    empty: Boolean = false,
    ids: Boolean = false,
    atEnd: Boolean = false,
    remembers: Boolean = false,
    generation: Long = 0L,
    forward: Boolean = false
) {
  count.filter(_ <= 0).foreach { n =>
    throw WindowException.invalid(
      s"The count of early firings is $n: a pane fires after 1 row or more. Give a positive number, such as " +
        s"${Setting.earlyCount(1000)}, or leave it out."
    )
  }

  if (ids && atEnd)
    throw WindowException.unsupported(
      s"${Setting.Ids} and ${Setting.CloseAtEnd} do not go together: an id is one pane's and no other's ever, and a window that has closed " +
        "at the end of one run opens again when another run has rows for it. Leave one of them out."
    )

  if (forward && !accumulate)
    throw WindowException.unsupported(
      s"${Setting.ForwardEmpty} and ${Setting.NotAccumulating} do not go together: a close holds only the rows since the last firing, so " +
        "there are no values of the window to repeat. Leave one of them out."
    )

  def fires: Boolean = onTime || countsRows

  /** True if firings depend on the number of rows, so that panes count them. */
  def countsRows: Boolean = count.isDefined

  /** The option that makes windows without rows close, for messages. */
  def emptyOption: Setting = if (forward) Setting.ForwardEmpty else Setting.EmitEmpty

  /** True if they differ only in firings before the close, and in the consequences of these. */
  def isButForFirings(other: Refinements): Boolean =
    copy(count = other.count, onTime = other.onTime, accumulate = other.accumulate).isButForIds(other)

  /** True if they differ only in the ids of panes and in the records for them. */
  def isButForIds(other: Refinements): Boolean =
    copy(ids = other.ids, remembers = other.remembers, generation = other.generation) == other

  def describe: Seq[String] =
    count.map(n => s"fires early after every $n rows").toSeq ++
      Option.when(onTime)("fires at its end and when changed after it") ++
      Option.unless(accumulate)("each firing has the rows since the previous one") ++
      Option.when(empty)(
        if (forward) "windows without rows repeat the previous values" else "windows without rows close too"
      ) ++
      Option.when(atEnd)("all close at the end of the input")
}

object Refinements {
  val none: Refinements = Refinements(count = None, onTime = false, accumulate = true)
}
