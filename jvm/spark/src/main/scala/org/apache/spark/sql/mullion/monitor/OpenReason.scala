package org.apache.spark.sql.mullion.monitor

import dev.mullion.windows.spec.Setting

/** The reason why an operator's panes are open, as text. */
private[mullion] object OpenReason {

  /** @param isRunning
    *   whether the query is running
    */
  def apply(operator: OperatorDescription, report: BatchReport, isRunning: Boolean): String = operator.language {
    val parts =
      if (report.panesOpen == 0) Seq("No pane is open.")
      else if (isRunning) clockParts(operator, report)
      else clockParts(operator, report) :+ "The query has ended: no pane closes until it is started again."
    parts.mkString(" ")
  }

  private def clockParts(operator: OperatorDescription, report: BatchReport): Seq[String] = operator.clock match {
    case ClockKind.RowNumbers =>
      Seq(s"${panes(report)} for more rows of ${their(report)} key. The list of the oldest panes has the keys.")
    case ClockKind.EventTimeOfKeys =>
      Seq(
        s"${panes(report)} for rows of ${their(report)} key: each key has its own clock, which only its rows advance. The list " +
          "of the oldest panes has the keys."
      )
    case kind =>
      val waits = operator.waitsFor(report)
      val next =
        if (report.panesOpen == 1) "1 pane is open. It waits"
        else s"${report.panesOpen} panes are open. The next one waits"
      s"$next for $waits." +: (if (kind == ClockKind.EventTime) heldBy(operator, report) else Nil)
  }

  /** The holder of an event clock, and the option that advances the clock in spite of it. */
  def heldBy(operator: OperatorDescription, report: BatchReport): Seq[String] =
    report.clock.heldBy.map(by => s"The clock is held by $by.").toSeq ++
      Option.when(operator.idleAfterUs.isEmpty)(
        s"If the stream may be quiet, ${Setting.IdleAfter} advances the clock without rows."
      )

  def panes(report: BatchReport): String =
    if (report.panesOpen == 1) "1 open pane waits" else s"${report.panesOpen} open panes wait"

  private def their(report: BatchReport): String = if (report.panesOpen == 1) "its" else "their"
}
