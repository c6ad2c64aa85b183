package org.apache.spark.sql.mullion.state.header

import dev.mullion.windows.spec.{Setting, TimeMath}

/** The transition of one window's state after a change of its query.
  *
  * @param goesOn
  *   changes that are supported, as text
  * @param refused
  *   changes that are not supported, with the reason
  * @param drains
  *   panes that continue until they close by the old rules, with the time
  * @param drops
  *   panes that are dropped, as text
  */
final case class StateChange(
    goesOn: Seq[String],
    refused: Seq[String],
    drains: Seq[String] = Nil,
    drops: Seq[String] = Nil
) {
  def ++(other: StateChange): StateChange =
    StateChange(goesOn ++ other.goesOn, refused ++ other.refused, drains ++ other.drains, drops ++ other.drops)

  /** The same for a named window. */
  def of(window: String): StateChange = saying(s"of the window '$window' ")

  /** The same with a prefix for each text. */
  def saying(words: String): StateChange = {
    def prefixed(what: Seq[String]) = what.map(words + _)
    StateChange(prefixed(goesOn), prefixed(refused), prefixed(drains), prefixed(drops))
  }
}

object StateChange {
  val none: StateChange = StateChange(Nil, Nil)

  def goesOn(what: String): StateChange = StateChange(Seq(what), Nil)

  def refused(what: String): StateChange = StateChange(Nil, Seq(what))

  def drains(what: String): StateChange = StateChange(Nil, Nil, Seq(what))

  def drops(what: String): StateChange = StateChange(Nil, Nil, Nil, Seq(what))

  /** For a query that changed before its first batch was committed. */
  val begins: StateChange = goesOn("it begins as it is now, for none of its batches is committed")

  /** The transition of a window.
    *
    * @param isAlone
    *   whether it is the only one of its operator
    */
  def apply(was: StateHeader, now: StateHeader, isAlone: Boolean): StateChange = {
    val differs = was.identity.zip(now.identity).collect { case ((name, a), (_, b)) if a != b => name -> (a -> b) }
    val ofAggregates = StateChange.ofAggregates(was, now)
    val changes = differs
      .flatMap { case (name, (a, b)) =>
        val words = s"$name was [$a] and is now [$b]"
        val change = name match {
          case "aggregates" if was.isRenamed(now) => None
          // Covered by the functions, which are more precise.
          case "aggregates" | "accumulators" if was.functions.isDefined && now.functions.isDefined =>
            Option.when(name == "accumulators" && ofAggregates.refused.nonEmpty)(refused(words))
          case "window"           => Some(ofWindow(was, now, words, isAlone))
          case "keys"             => Some(ofKeys(was, now, words))
          case "allowed lateness" => Some(ofLateness(was, now, words, isAlone))
          case "early firing"     => Some(ofEarly(was, now, words))
          case "firings"          => Some(ofFirings(was, now, words))
          case "new aggregates"   => Some(ofNewAggregates(was, words))
          case _                  => Some(refused(words))
        }
        change.map(name -> _)
      }
    val isOtherContents = ofAggregates.refused.nonEmpty || was.otherKeys(now).nonEmpty ||
      changes.exists { case (name, change) => contents(name) && change.refused.nonEmpty }
    val retyped = new RetypedColumns(was, now)
    val types = if (isOtherContents) retyped.all else retyped.hidden
    changes.map(_._2).foldLeft(ofAggregates)(_ ++ _) ++ StateChange(Nil, was.unseenButTypes(now) ++ types)
  }

  private val contents = Set("aggregates", "accumulators")

  private def ofWindow(was: StateHeader, now: StateHeader, words: String, isAlone: Boolean): StateChange =
    if (!isAlone || isOneByOne(was, now)) refused(words)
    else refused(s"$words (with ${Setting.DrainWindow} its panes stay open until they close, next to the new window)")

  private def ofKeys(was: StateHeader, now: StateHeader, words: String): StateChange = {
    def types(of: StateHeader) = of.keys.map(key => key.drop(key.lastIndexOf(' ')))
    if (
      types(was) == types(now) && was.by.length == now.by.length && was.by.zip(now.by).forall { case (a, b) =>
        ColumnTexts.isRenamed(a, b)
      }
    )
      goesOn(words)
    else if (was.keys.sorted == now.keys.sorted)
      refused(
        s"$words: where the state of a key lies depends on their order (give them to ${Setting.By} in the order of before, and put " +
          "the columns in order with select)"
      )
    else refused(words)
  }

  private def ofLateness(was: StateHeader, now: StateHeader, words: String, isAlone: Boolean): StateChange =
    if (!isAlone) refused(s"$words, which cannot change for one of several windows in a query")
    else if (was.rows.isDefined || now.rows.isDefined)
      refused(s"$words, $oneByOne")
    else goesOn(words)

  private def ofEarly(was: StateHeader, now: StateHeader, words: String): StateChange =
    (was.early, now.early) match {
      case _ if forgets(was, now)                           => refused(s"$words, $forgotten")
      case (Some(a), Some(b)) if a.unchanged == b.unchanged => goesOn(words)
      case _ if isOneByOne(was, now)                        => refused(s"$words, $oneByOne")
      case (Some(_), Some(_))                               => goesOn(s"$words: $fromNowOn")
      case _                                                => goesOn(s"$words: $fromNowOn")
    }

  /** True if recorded firings would be lost, and with them the firing numbers of panes. */
  private def forgets(was: StateHeader, now: StateHeader) = was.firesOpen && !now.firesOpen

  private val forgotten =
    "which loses how often open panes have fired (the extension that mullion.configure sets keeps that)"

  private def isOneByOne(was: StateHeader, now: StateHeader) = was.rows.isDefined || now.rows.isDefined

  private val oneByOne = "which cannot change where rows are processed one by one"

  private val fromNowOn = "open panes follow it from the first batch on"

  private def ofFirings(was: StateHeader, now: StateHeader, words: String): StateChange = {
    val (before, after) = (was.refinements, now.refinements)
    if (!before.isButForFirings(after)) refused(words)
    else if (before.count.isDefined && after.count.isDefined && before.copy(count = after.count).isButForIds(after))
      goesOn(words)
    else if (isOneByOne(was, now)) refused(s"$words, $oneByOne")
    else if (forgets(was, now)) refused(s"$words, $forgotten")
    else if (!before.accumulate && after.accumulate)
      refused(
        s"$words: what the firings so far have shown of open panes is gone from them, so none of them could be whole"
      )
    else if (before.accumulate != after.accumulate && was.window.overlaps)
      refused(
        s"$words: windows that overlap share their rows, and to take away what one has shown each would need its own"
      )
    else goesOn(s"$words: $fromNowOn")
  }

  /** True if open panes adopt other firing rules, so that their records change. */
  def beginsFirings(was: StateHeader, now: StateHeader): Boolean =
    was.early.map(_.unchanged) != now.early.map(_.unchanged) || was.refinements.onTime != now.refinements.onTime ||
      was.refinements.countsRows != now.refinements.countsRows

  private def ofNewAggregates(was: StateHeader, words: String): StateChange =
    if (was.fromNow.contains(true))
      refused(s"$words: open panes may hold aggregates that are not whole, and could not say so (leave it as it was)")
    else goesOn(words)

  private def ofAggregates(was: StateHeader, now: StateHeader): StateChange =
    (was.functions, now.functions) match {
      case (Some(before), Some(after)) if before != after => ofFunctions(was, now, before, after)
      case (Some(_), Some(_)) if was.aggregates != now.aggregates && !was.isRenamed(now) =>
        // Expressions over aggregates do not affect state.
        goesOn(s"aggregates were [${listed(was)}] and are now [${listed(now)}]")
      case _ => none
    }

  private def listed(of: StateHeader) = of.aggregates.mkString(", ")

  private def ofFunctions(
      was: StateHeader,
      now: StateHeader,
      before: List[StateHeader.Function],
      after: List[StateHeader.Function]
  ): StateChange = {
    val words = s"aggregates was [${listed(was)}] and is now [${listed(now)}]"
    // The function that tracks complete aggregates is described by its option instead.
    def texts(of: List[StateHeader.Function]) = of.filterNot(_.isKnowing).map(_.text)
    val (gone, added) = (texts(before).diff(texts(after)), texts(after).diff(texts(before)))
    def hasLists(of: List[StateHeader.Function]) = of.exists(_.isInChunks)
    val lists = before.filter(_.isInChunks)
    if (Seq(before, after).exists(of => texts(of).distinct != texts(of)))
      refused(s"$words, of which two have equal texts and cannot be distinguished")
    else if (Seq(was, now).exists(_.keepsRows))
      refused(s"$words: the rows of open panes are kept with the columns that were asked for")
    else if (before.exists(f => after.exists(g => f.text == g.text && f.buffers != g.buffers)))
      refused(s"$words, of which one is now kept in another form")
    else if (added.nonEmpty && !now.fromNow.contains(true))
      refused(
        s"$words: what [${added.mkString(", ")}] would be of the rows before is not known (with ${Setting.NewAggregatesFromNow} it " +
          "begins with the rows from now on, and open panes say so)"
      )
    else if (lists.exists(list => gone.contains(list.text)) && hasLists(after))
      refused(s"$words: of several aggregates that collect rows one is gone, and another one stays")
    else
      StateChange(
        Seq(
          Option
            .when(gone.isEmpty && added.isEmpty && texts(before) != texts(after))("aggregates are in another order"),
          Option.when(gone.nonEmpty)(s"aggregates are gone: [${gone.mkString(", ")}]"),
          Option.when(added.nonEmpty)(s"aggregates are new: [${added.mkString(", ")}]")
        ).flatten,
        Nil
      )
  }

  /** The current position of each previous key; none if these are not the same keys, or are ambiguous. */
  def keyOrder(was: List[String], now: List[String]): Option[Seq[Int]] = {
    val places = was.map(a => now.indices.filter(i => a == now(i) || ColumnTexts.isRenamed(a, now(i))))
    val order = places.flatten
    Option.when(was.length == now.length && places.forall(_.length == 1) && order.distinct == order)(order)
  }

  /** The previous position of each current function. */
  def previousPositions(was: StateHeader, now: StateHeader): Seq[Option[Int]] = {
    val before = was.functions.getOrElse(Nil).map(_.text)
    now.functions.getOrElse(Nil).map(f => Option(before.indexOf(f.text)).filter(_ >= 0))
  }

  /** The due time up to which all panes had closed before the first batch with a changed lateness: the end of the last
    * of them, as of the event clock `before`.
    */
  def closedTo(was: StateHeader, before: Long): Long =
    Math.max(was.closedTo.getOrElse(Long.MinValue), TimeMath.minus(before, was.allowedLateness))
}
