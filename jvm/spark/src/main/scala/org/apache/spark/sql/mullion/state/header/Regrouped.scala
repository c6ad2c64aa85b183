package org.apache.spark.sql.mullion.state.header

import dev.mullion.windows.spec.Setting

/** The mapping between the windows of a state and the windows of a changed query.
  *
  * {{{
  *   in state           hourly      visits      days
  *   requested          per_hour    visits      weeks
  *                      renamed     the same    days is gone, weeks is new
  * }}}
  *
  * A window under another name counts as renamed if it is equal in everything else, and no other window is.
  *
  * @param kept
  *   the previous name of each continuing window, by its new name
  */
private[mullion] final case class Regrouped(kept: Map[String, String], added: Seq[String], gone: Seq[String])

private[mullion] object Regrouped {

  /** The name of a single window. */
  val Alone = ""

  def windowsOf(header: OperatorHeader): Seq[(String, StateHeader)] =
    header.windows.map { case (name, window) => name.getOrElse(Alone) -> window }

  /** The windows, with their names, by the names under which their records are stored. */
  def byPlace(header: OperatorHeader): Seq[(String, (String, StateHeader))] =
    windowsOf(header).map { case (name, window) => window.place.getOrElse(name) -> (name -> window) }

  /** True if these are the names of a single window. */
  def isAlone(names: Seq[String]): Boolean = names == Seq(Alone)

  /** The mapping, or the reason why it is ambiguous. */
  def apply(was: OperatorHeader, now: OperatorHeader): Either[String, Regrouped] = {
    val (before, after) = (windowsOf(was), windowsOf(now))
    val same = after.map(_._1).filter(name => before.exists(_._1 == name))
    val gone = before.filterNot { case (name, _) => same.contains(name) }
    val added = after.filterNot { case (name, _) => same.contains(name) }
    def plain(of: StateHeader) =
      of.withOwnPlaces.copy(refinements = of.refinements.copy(remembers = false, generation = 0L))
    def isOne(a: StateHeader, b: StateHeader) = plain(a).differences(plain(b)).isEmpty
    val becomes = gone.map { case (name, window) => name -> added.filter(of => isOne(window, of._2)).map(_._1) }
    val comesOf = added.map { case (name, window) => name -> gone.filter(of => isOne(of._2, window)).map(_._1) }
    val unclear = becomes.collectFirst { case (name, several) if several.length > 1 => Seq(name) -> several } orElse
      comesOf.collectFirst { case (name, several) if several.length > 1 => several -> Seq(name) }
    unclear
      .map { case (of, to) =>
        s"${listed(of)} ${if (of.length > 1) "are" else "is"} gone, and it is not clear whose panes are those of " +
          s"${listed(to)}: they are alike (leave one of them out, and add it with a later change)"
      }
      .toLeft {
        val renamed = becomes.collect { case (name, Seq(one)) => one -> name }.toMap
        Regrouped(
          same.map(name => name -> name).toMap ++ renamed,
          added.map(_._1).filterNot(renamed.contains),
          gone.map(_._1).filterNot(renamed.valuesIterator.toSet.contains)
        )
      }
  }

  private def listed(names: Seq[String]) = names.map(named).mkString(" and ")

  private def named(name: String) = if (name == Alone) "the one window" else s"the window '$name'"

  /** The transition of a state to other windows or other names. The headers record the places of records. */
  private[header] def change(was: OperatorHeader, now: OperatorHeader): StateChange = {
    val (before, after) = (byPlace(was), byPlace(now))
    val (placesBefore, placesAfter) = (before.map(_._1).toSet, after.map(_._1).toSet)
    val moves = for ((place, (name, window)) <- before; (at, (other, is)) <- after if at == place) yield {
      val words = s"${named(name)} is now ${nowNamed(other)}"
      val renamed = Option.when(name != other)(
        if (!is.refinements.ids) StateChange.goesOn(words)
        else
          StateChange.refused(
            s"$words: with ${Setting.Ids} a table has rows of its open panes under the former name, and they would stay there (keep " +
              "that name, and rename the window in queries over the table)"
          )
      )
      val changes = StateChange(window, is, isAlone = false)
      renamed.getOrElse(StateChange.none) ++ (if (other == Alone) changes else changes.of(other))
    }
    val gone = before.filterNot(of => placesAfter(of._1)).map { case (_, (name, window)) =>
      val words = s"${named(name)} (${window.describe}) is gone"
      if (now.dropped.contains(name)) StateChange.drops(s"$words: its open panes are dropped, without a firing")
      else
        StateChange.refused(
          s"$words: with ${Setting.DropWindow} its open panes are dropped, without a firing"
        )
    }
    val added = after.filterNot(of => placesBefore(of._1)).map { case (_, (name, window)) =>
      val words = s"${named(name)} (${window.describe}) is new"
      StateChange.goesOn(s"$words: it holds the rows from now on")
    }
    whyNot(was, now).fold((moves ++ gone ++ added).foldLeft(StateChange.none)(_ ++ _)) { why =>
      StateChange.refused(s"${was.differences(now).mkString("; ")}: $why")
    }
  }

  private def nowNamed(name: String) = if (name == Alone) "the only one" else s"'$name'"

  /** The reason why the state cannot be used for any other windows. */
  private def whyNot(was: OperatorHeader, now: OperatorHeader): Option[String] =
    if (was.sharedBy != now.sharedBy || was.sharedBy.exists(_.startsWith("window_number ")))
      Some("where the state of a key lies depends on them, since not all have the same keys in one order")
    else if (Seq(was, now).flatMap(_.windows).exists(_._2.byShard.contains(true)))
      Some("a stage before it has distributed its rows")
    else if (firstPlace(was) != firstPlace(now))
      Some("that needs the extension that mullion.configure sets, which records the place of each")
    else None

  private def firstPlace(of: OperatorHeader): String =
    of.first.fold(byPlace(of).headOption.fold(Alone)(_._1))(_.place)

  /** An unused name for the records of a new window. */
  def placeFor(name: String, taken: Set[String]): String = {
    val base = if (name == Alone) "alone" else name
    (Iterator.single(name) ++ Iterator.from(2).map(n => s"$base-$n")).find(!taken(_)).get
  }
}
