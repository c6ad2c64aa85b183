package dev.mullion.windows.rules

import dev.mullion.windows.WindowException
import dev.mullion.windows.spec.{
  AroundWindow,
  CustomWindow,
  Duration,
  GridWindow,
  OrderedWindow,
  RowNumberWindow,
  Setting,
  WindowSpec
}

/** The errors of options that are incompatible with one another or with the kind of window. */
object RuleChecks {
  import WindowException.{invalid, unsupported}

  private[rules] def check(rules: PaneRules): Unit = {
    import rules.{allowedLateness, refinements, window}
    if (window.isInstanceOf[CustomWindow] && rules.onProcessingTime)
      throw unsupported(
        s"Custom windows need event time: on processing time (${Setting.ProcessingTime}) no row is late, and a row may bring ranges that " +
          s"ended before it came. Name the event time of the rows, as in ${Setting.time("ts")}."
      )
    if (refinements.onTime && allowedLateness == 0)
      throw invalid(
        s"${Setting.OnTime} adds nothing here: without allowed lateness a pane closes at its end. Add, for instance, " +
          s"${Setting.allowedLateness("10 minutes")}, or leave it out."
      )
    if (!refinements.accumulate && !rules.firesOpen)
      throw invalid(
        s"${Setting.NotAccumulating} needs firings before the close, and no option asks for any. Add ${Setting.Early} or ${Setting.OnTime}, or leave " +
          "it out."
      )
    if (refinements.empty && !window.isInstanceOf[GridWindow]) throw madeByRows(window, refinements.emptyOption)
    if (allowedLateness < 0)
      throw invalid(
        s"${Setting.AllowedLateness} ${Duration.describe(allowedLateness)} is negative, and a pane cannot close before its end. " +
          "Give a duration of 0 or more, such as '10 minutes'."
      )
    window match {
      case _: AroundWindow if !refinements.accumulate =>
        throw unsupported(
          s"${Setting.NotAccumulating} is not supported for windows around rows, because they share rows. Leave it out."
        )
      case ordered: OrderedWindow if rules.late.reopens =>
        throw unsupported(
          s"${Setting.late(rules.late.name)} with ${ordered.describe}: where a late row's window began and ended depends on rows that are " +
            s"gone. Use ${Setting.late("emit")} or ${Setting.late("drop")}."
        )
      case _ =>
    }
  }

  /** Raises an error for options that need a clock. */
  private[rules] def checkRowNumbers(
      window: RowNumberWindow,
      allowedLateness: Long,
      early: Option[EarlyFiring],
      late: LatePolicy,
      refinements: Refinements
  ): Unit = {
    val requested = Seq(
      Option.when(allowedLateness != 0)(Setting.AllowedLateness),
      Option.when(early.isDefined || refinements.countsRows)(Setting.Early),
      Option.when(refinements.onTime)(Setting.OnTime),
      Option.unless(refinements.accumulate)(Setting.NotAccumulating),
      Option.when(late != LatePolicy.Drop)(Setting.Late)
    ).flatten
    if (refinements.empty) throw madeByRows(window, refinements.emptyOption)
    requested.headOption.foreach(what => throw needsClock(what, window))
  }

  def needsClock(what: Setting, window: RowNumberWindow): WindowException = invalid(
    s"$what needs a clock, and a window of row numbers (${window.describe}) has no clock: its panes close with the row that " +
      "completes them, and no row is late. Leave it out."
  )

  /** @param empty
    *   the option for windows without rows
    */
  def madeByRows(window: WindowSpec, empty: Setting): WindowException = unsupported(
    s"$empty needs windows that exist without rows. A ${window.describe} does not: its rows decide where it begins " +
      "and ends. Use tumbling or sliding windows, or leave the option out."
  )
}
