package org.apache.spark.sql.mullion.plan.options

import dev.mullion.MullionException
import dev.mullion.windows.WindowException
import dev.mullion.windows.rules.{LatePolicy, PaneRules, RuleChecks}
import dev.mullion.windows.spec.{
  AroundWindow,
  CustomWindow,
  GlobalTrigger,
  GlobalWindow,
  GridWindow,
  OrderedWindow,
  RowNumberWindow,
  Setting,
  WindowSpec
}

/** Checks of a window and its options, independent of rows. [[RuleChecks]] checks the rules of panes at construction;
  * the checks here need more context. The first check with an error decides.
  */
object WindowChecks {

  private final case class Asked(window: WindowSpec, options: WindowOptions) {
    def isNumbered: Boolean = window.isInstanceOf[RowNumberWindow]

    /** The option or the window that requires row-by-row processing, if any. */
    def oneByOne: Option[Setting] = Seq(
      Option.when(window.isInstanceOf[OrderedWindow])(Setting.same(window.describe)),
      Option.when(options.running)(Setting.EachRow),
      options.collect.map(_ => Setting.Collect),
      Option.when(options.perKey)(Setting.PerKey)
    ).flatten.headOption
  }

  private type Check = Asked => Option[WindowException]

  private val beforeRules: Seq[Check] = Seq(clockOfTheStream, keysOfWindowsWithoutRows)

  private val all: Seq[Check] = Seq(
    clockOfRowNumbers,
    firingsOfRowsOneByOne,
    windowsOfRowsOneByOne,
    forwarding,
    knownKeys,
    clockOfKeys,
    lateBehindClock,
    running,
    forgetting,
    reopening,
    dedupe,
    newAggregates,
    draining
  )

  /** The rules of the panes. */
  def apply(window: WindowSpec, options: WindowOptions): PaneRules = {
    val request = Asked(window, options)
    def refuse(checks: Seq[Check]): Unit = checks.iterator.flatMap(_(request)).nextOption().foreach(throw _)
    refuse(beforeRules)
    val rules = options.rules(window)
    refuse(all)
    rules
  }

  private def unsupported(what: Any, why: String): Option[WindowException] =
    Some(MullionException.unsupported(s"$what: $why"))

  /** On processing time no row is late, and the clock never stops. */
  private def clockOfTheStream(request: Asked): Option[WindowException] = {
    import request.options
    val named = Seq(
      (Setting.AllowedLateness, "no row is late", options.allowedLateness != 0),
      (Setting.Late, "no row is late", options.late != LatePolicy.Drop),
      (Setting.IdleAfter, "the clock never stops", options.idleAfter.isDefined),
      (Setting.MaxAhead, "no row is ahead of the clock", options.maxAhead.isDefined)
    )
    named.collectFirst {
      case (name, why, true) if !request.isNumbered && options.time.isEmpty =>
        MullionException.invalid(
          s"$name has no effect on processing time (${Setting.ProcessingTime}), where $why. Leave it out, or name the " +
            s"column of the event time, as in ${Setting.time("ts")}."
        )
    }
  }

  private def keysOfWindowsWithoutRows(request: Asked): Option[WindowException] =
    Option.when(request.options.knownKeys.isDefined && !request.window.isInstanceOf[GridWindow])(
      RuleChecks.madeByRows(request.window, Setting.EmptyFor)
    )

  private def newAggregates(request: Asked): Option[WindowException] = {
    import request.options
    val other = Seq(
      options.collect.map(_ => Setting.Collect),
      options.split.map(_ => "Global.split"),
      Option.when(options.dedupeBy.nonEmpty)(Setting.DedupeBy)
    ).flatten.headOption.filter(_ => options.fromNow)
    other.flatMap { what =>
      unsupported(
        s"${Setting.NewAggregatesFromNow} with $what",
        "the state of open panes holds only the columns of the former aggregates. Leave one of them out."
      )
    }
  }

  /** Options that are incompatible with a window that drains. */
  private def draining(request: Asked): Option[WindowException] = {
    import request.options
    val other = Seq(
      Option.when(request.isNumbered)(
        s"a window of row numbers (${request.window.describe})" -> "it has no clock, so no time separates its rows from those of the new window"
      ),
      request.oneByOne.map(_ -> "each row is then processed alone, for a single window"),
      Option.when(options.refinements.empty)(
        options.refinements.emptyOption -> "windows without rows would close on both sides of the boundary"
      )
    ).flatten.headOption.filter(_ => options.drains)
    other.flatMap { case (what, why) =>
      unsupported(s"${Setting.DrainWindow} with $what", s"$why. Leave it out.")
    }
  }

  private def clockOfRowNumbers(request: Asked): Option[WindowException] = request.window match {
    case window: RowNumberWindow =>
      Option
        .when(request.options.idleAfter.isDefined)(Setting.IdleAfter)
        .orElse(Option.when(request.options.maxAhead.isDefined)(Setting.MaxAhead))
        .orElse(Option.when(request.options.perKey)(Setting.PerKey))
        .map(RuleChecks.needsClock(_, window))
    case _ => None
  }

  private def firingsOfRowsOneByOne(request: Asked): Option[WindowException] = {
    val fires = request.options.refinements
    // State that is kept row by row can be split anywhere.
    val takenApart = request.window.isInstanceOf[GridWindow] && request.options.collect.isDefined &&
      !request.options.perKey && !request.options.running
    val other = Seq(
      Option.when(fires.onTime)(Setting.OnTime),
      Option.when(fires.count.isDefined && !takenApart)(Setting.EarlyCount),
      Option.when(fires.empty && !takenApart)(fires.emptyOption),
      Option.when(!fires.accumulate && !takenApart)(Setting.NotAccumulating)
    ).flatten.headOption
    other.zip(request.oneByOne).flatMap { case (what, one) =>
      unsupported(
        s"$what with $one",
        s"each row is then processed alone, which $what does not support. Leave $what out."
      )
    }
  }

  private def forwarding(request: Asked): Option[WindowException] =
    Option.when(request.options.refinements.forward && request.options.collect.isDefined)(Setting.Collect).flatMap {
      unsupported(_, s"${Setting.ForwardEmpty} would keep the rows of a pane for every later window. Use aggregates.")
    }

  private def knownKeys(request: Asked): Option[WindowException] = {
    val other = Seq(
      Option.when(request.options.collect.isDefined)(
        Setting.Collect -> "each row is then processed alone, and a key without rows has none. Use an aggregate such as collect_list."
      ),
      Option.when(request.options.refinements.atEnd)(
        Setting.CloseAtEnd -> "the windows of a key then end with its last row, and a key of the table may have no row. Leave it out."
      )
    ).flatten.headOption.filter(_ => request.options.knownKeys.isDefined)
    other.flatMap { case (what, why) => unsupported(s"${Setting.EmptyFor} with $what", why) }
  }

  private def windowsOfRowsOneByOne(request: Asked): Option[WindowException] = {
    val shared = request.window match {
      case _: AroundWindow => Some("a window around a row needs the rows before it and after it")
      case _: CustomWindow => Some("the ranges of a row are separated before the rows of its key are brought together")
      case _               => None
    }
    shared.zip(request.oneByOne).flatMap { case (why, one) =>
      unsupported(s"$one with ${request.window.describe}", s"$why. Leave it out.")
    }
  }

  private def clockOfKeys(request: Asked): Option[WindowException] = {
    import request.options
    def onProcessingTime = options.perKey && options.time.isEmpty
    def early = options.keysFollowWall && options.early.isDefined
    def earlyByWall = options.perKey && options.early.exists(_.byWall)
    if (onProcessingTime)
      unsupported(
        Setting.PerKey,
        s"on processing time (${Setting.ProcessingTime}) all keys have the wall clock. Leave it out."
      )
    else if (early)
      unsupported(
        s"${Setting.Early} with ${Setting.PerKeyWithWallTime}",
        s"a key's panes would fire early only with its rows, and not by the time that passes. Use ${Setting.PerKey}, or " +
          "leave early firings out."
      )
    else if (earlyByWall)
      unsupported(
        s"${Setting.EarlyWall} with ${Setting.PerKey}",
        s"a key's panes fire by the key's own clock. Use ${Setting.EarlyEvery}."
      )
    else None
  }

  private def lateBehindClock(request: Asked): Option[WindowException] = {
    import request.options
    if (options.lateBehindClock && options.late.reopens)
      Some(
        MullionException.unsupported(
          s"${Setting.LateByWatermark} with ${Setting.late(options.late.name)}: the pane of a late row may still be open, " +
            s"and would exist twice. Use ${Setting.late("emit")} or ${Setting.late("drop")}."
        )
      )
    else None
  }

  private def running(request: Asked): Option[WindowException] = {
    import request.options
    request.window match {
      case _ if !options.running                       => None
      case GlobalWindow(split: GlobalTrigger.Split, _) =>
        Some(
          MullionException.unsupported(
            s"${Setting.EachRow} is not for Global.split(${split.function}): its function receives all rows of a batch at " +
              "once, and decides the window of a row only then. Leave it out."
          )
        )
      case _ if options.collect.isDefined =>
        unsupported(
          s"${Setting.EachRow} with ${Setting.Collect}",
          "each row would fire all the rows of its pane so far. Collect without it, or use aggregates."
        )
      case _ if options.early.isDefined =>
        unsupported(
          s"${Setting.EachRow} with an interval",
          "each row already fires its panes. Leave the interval out."
        )
      case _ => None
    }
  }

  /** Only keys that are kept for ever can be forgotten. */
  private def forgetting(request: Asked): Option[WindowException] = {
    import request.options
    val other = request.window match {
      case _ if options.forgetAfter.isEmpty            => None
      case _ if !request.isNumbered && !options.perKey =>
        Some(
          "needs keys that are kept" -> s"with one clock for all keys, a key is removed when its panes close. Leave it out, or use ${Setting.PerKey}."
        )
      case GlobalWindow(split: GlobalTrigger.Split, _) =>
        Some(
          s"with Global.split(${split.function})" -> "its rows are kept until the function splits them. Leave it out."
        )
      case _ if options.refinements.ids =>
        Some(
          s"with ${Setting.Ids}" -> "a key that returns has windows with the ids of earlier ones. Leave one of them out."
        )
      case _ => None
    }
    other.flatMap { case (what, why) => unsupported(s"${Setting.ForgetAfter} $what", why) }
  }

  private def reopening(request: Asked): Option[WindowException] = {
    import request.options
    val each = request.oneByOne.filter(_ => options.late == LatePolicy.ReopenEach)
    if (each.isDefined)
      unsupported(
        s"${Setting.late("reopen each")} with ${each.get}",
        s"each row is then processed alone, for all of its panes. Use ${Setting.late("reopen")}, for rows that are late for all of their panes."
      )
    else if (options.late == LatePolicy.Reopen && !options.perKey && options.running)
      unsupported(
        s"${Setting.late("reopen")} with ${Setting.EachRow}",
        s"late rows cannot open panes then. Use ${Setting.late("emit")}, which returns them, or ${Setting.late("drop")}."
      )
    else None
  }

  private def dedupe(request: Asked): Option[WindowException] = {
    import request.options
    def unsupportedWith(what: Any, why: String) = unsupported(s"${Setting.DedupeBy} with $what", why)
    if (options.dedupeBy.isEmpty) None
    else if (request.isNumbered)
      unsupportedWith(
        s"a window of row numbers (${request.window.describe})",
        "each copy of a row has a number, and the numbers decide the windows. Drop copies before the " +
          "window, with dropDuplicates."
      )
    else if (options.collect.isDefined)
      unsupportedWith(
        Setting.Collect,
        "rows are collected as they arrive. Use the aggregate collect_list(struct(*))."
      )
    else if (!options.refinements.accumulate)
      unsupportedWith(
        Setting.NotAccumulating,
        "a firing clears the rows that it shows, so a copy that arrives later would count again. Leave one of them out."
      )
    else if (options.refinements.count.isDefined)
      unsupportedWith(Setting.EarlyCount, s"it counts each row that arrives, copies too. Use ${Setting.EarlyEvery}.")
    else None
  }
}
