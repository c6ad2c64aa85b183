package dev.mullion.windows.rules

import dev.mullion.MullionException

/** What panes fire beside their close and what they fire at intervals, and whether a firing takes away what it shows.
  *
  * {{{
  *   open                      end                        end + allowedLateness
  *    |------ early, early -----|----------- rows ------------|
  *                           on_time     update  update     close
  * }}}
  *
  * `on_time` and `update` are Flink's: there a pane fires at its end and again for each late row within the lateness;
  * here once for all the rows of a batch. A session that grows has a new end, and is on time there again.
  *
  * @param count
  *   fires `early` once so many rows came since the pane opened or last fired; none for never. Where rows are worked on
  *   one by one a pane fires with the row that makes so many, as often as there are such rows in a batch; else once a
  *   batch, with all of its rows
  * @param onTime
  *   whether panes fire when the clock comes to their end, and after that in each batch that has rows for them
  * @param accumulate
  *   whether a firing shows all of a pane; else what came since the one before it
  * @param empty
  *   whether windows without rows close too, for keys that are known: from the first window that held a row on
  * @param ids
  *   whether firings tell the ids of their panes; see [[PaneId]]
  * @param atEnd
  *   whether all that is open closes when the input of the query ends, and nothing is kept for another run
  * @param remembers
  *   whether panes may have fired under earlier options, so that their firings are still counted
  * @param generation
  *   the first batch of the window, in a query that began with other windows; it is part of the ids
  */
final case class Refinements(
    count: Option[Long],
    onTime: Boolean,
    accumulate: Boolean,
    empty: Boolean = false,
    ids: Boolean = false,
    atEnd: Boolean = false,
    remembers: Boolean = false,
    generation: Long = 0L
) {
  count.filter(_ <= 0).foreach { n =>
    throw MullionException.invalid(
      s"The count of early firings is $n: a pane fires after 1 row or more. Give a positive number, such as " +
        "Early(count=1000), or leave early out."
    )
  }

  if (ids && atEnd)
    throw MullionException.unsupported(
      "ids=True and at_end='close' do not go together: an id is one pane's and no other's ever, and a window that has closed " +
        "at the end of one run opens again when another run has rows for it. Leave one of them out."
    )

  def fires: Boolean = onTime || count.isDefined

  /** Whether they differ in nothing but when panes fire before they close, and what that leaves. */
  def isButForFirings(other: Refinements): Boolean =
    copy(count = other.count, onTime = other.onTime, accumulate = other.accumulate).isButForIds(other)

  /** Whether they differ in nothing but the ids of panes and what is remembered for them. */
  def isButForIds(other: Refinements): Boolean =
    copy(ids = other.ids, remembers = other.remembers, generation = other.generation) == other

  def describe: Seq[String] =
    count.map(n => s"fires early after every $n rows").toSeq ++
      Option.when(onTime)("fires at its end and when changed after it") ++
      Option.unless(accumulate)("each firing shows what came since the one before") ++
      Option.when(empty)("windows without rows close too") ++
      Option.when(atEnd)("all close at the end of the input")
}

object Refinements {
  val none: Refinements = Refinements(count = None, onTime = false, accumulate = true)
}
