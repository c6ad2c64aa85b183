package org.apache.spark.sql.mullion.checkpoint.evolve

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LogicalPlan}
import org.apache.spark.sql.mullion.checkpoint.layout.CheckpointClock
import org.apache.spark.sql.mullion.plan.{Refusals, WindowedAggregate, Windows, WindowsTogether}
import org.apache.spark.sql.mullion.pyfunction.branch.ProcessedRows
import org.apache.spark.sql.mullion.state.header.{DrainHeader, HeaderWindow, RecordPlaces, StateHeader}

import dev.mullion.windows.clock.PaneClock
import dev.mullion.windows.rules.{Drain, LatePolicy, PaneRules, Refinements}
import dev.mullion.windows.spec.{Duration, RowNumberWindow, TimeMath}

/** The node of a query whose window replaces another: both windows over the same rows, in one operator, with the output
  * of the new one.
  *
  * {{{
  *   WindowedAggregate 2 hours ── rows   ->   WindowsTogether [1 hour until 12:00, 2 hours from 12:00] ── rows
  * }}}
  */
private[checkpoint] object Draining {

  /** The node of a query that begins to replace its window, or the reason why it cannot. */
  def begin(now: WindowedAggregate, was: StateHeader, clock: CheckpointClock): Either[String, WindowsTogether] =
    whyNot(now, was, clock).toLeft {
      val rules = rulesBefore(now, was, was.refinements)
      val next = Carried.added(Carried.delay(now, was), clock)
      node(next, was, Drain(rules, now.rules, timeAfterAllRows(now, was, clock)))
    }

  private def whyNot(now: WindowedAggregate, was: StateHeader, clock: CheckpointClock): Option[String] =
    if (was.rows.isDefined || now.rows.isDefined) Some("rows are processed one by one, in order of arrival")
    else if (ProcessedRows.areIn(now.child)) Some("a stage before it has distributed its rows")
    else if (now.child.exists(isStateful))
      Some("its input is another stateful operator, whose clock is behind the stream's")
    else
      Drain.refusal(rulesBefore(now, was, was.refinements), now.rules).orElse {
        // Rows of the next batch are late by the last batch's clock.
        val closed = was.closedTo.map(TimeMath.plus(_, was.allowedLateness)).filter(_ > clock.committed)
        closed
          .map(due =>
            s"its lateness has just changed: it can be replaced once the clock has reached ${DrainHeader.instant(due)}"
          )
      }

  /** True if a node belongs to a stateful operator, Spark's or Mullion's. */
  def isStateful(plan: LogicalPlan): Boolean = plan match {
    case Windows(_) => true
    case other      => Refusals.isStateful(other)
  }

  /** A time after all rows that the query may have processed. */
  private def timeAfterAllRows(now: WindowedAggregate, was: StateHeader, clock: CheckpointClock): Long =
    if (now.rules.onProcessingTime) TimeMath.plus(clock.wall, 1000)
    else
      // The watermark follows from the previous delay. It is in whole milliseconds.
      TimeMath.plus(clock.next, TimeMath.plus(was.delay.getOrElse(now.terms.delay), 1000))

  /** The rules of the old window, over the rows of the new one. */
  private def rulesBefore(now: WindowedAggregate, was: StateHeader, refinements: Refinements): PaneRules = {
    val window = was.window.spec
    val clock = if (was.clock == PaneClock.ProcessingTime.name) PaneClock.ProcessingTime else PaneClock.EventTime
    val late = window match {
      case _: RowNumberWindow => LatePolicy.Drop
      case _                  => now.rules.late
    }
    PaneRules(window, was.allowedLateness, was.early, late, refinements, clock)
  }

  /** The node of a query whose window replaces that of the state. */
  def node(now: WindowedAggregate, was: StateHeader, drain: Drain): WindowsTogether = {
    // The current query determines the output of firings.
    val rules = rulesBefore(now, was, was.refinements.copy(ids = now.rules.refinements.ids))
    // Windows share a function, unless its result depends on the order of rows: then each has its own buffers.
    def own(function: AggregateFunction, filter: Expression) =
      if (function.deterministic && filter.deterministic) function
      else
        function.makeCopy(function.productIterator.map(_.asInstanceOf[AnyRef]).toArray).asInstanceOf[AggregateFunction]
    val before = now.copy(
      gap = None,
      ranges = None,
      trigger = None,
      functions = now.functions.zip(now.filters).map { case (function, filter) => own(function, filter) },
      terms = now.terms.copy(rules = rules, text = now.text.copy(gap = None, trigger = None))
    )
    val place = was.place.getOrElse(DrainHeader.Draining)
    WindowsTogether.showing(
      now,
      Seq(DrainHeader.Draining -> before, DrainHeader.Next -> now),
      Some(drain),
      Option.when(was.place.isDefined || was.first.isDefined)(
        RecordPlaces(Map(DrainHeader.Draining -> place, DrainHeader.Next -> DrainHeader.Next), was.first)
      )
    )
  }

  /** A plan over the state of a window that is being replaced, if the plan has that window. */
  def over(plan: LogicalPlan, header: DrainHeader): LogicalPlan = AnalysisHelper.allowInvokingTransformsInAnalyzer {
    plan.transformDown {
      case one: WindowedAggregate if windowOf(one).describe == header.next.window.describe =>
        val same = CastColumns(Carried(one, header.next), one.child, header.next)._1
        node(same, header.draining, header.drain)
    }
  }

  def windowOf(node: WindowedAggregate): HeaderWindow =
    HeaderWindow(node.rules.window, node.text.gap, node.text.trigger)

  /** The node of a query that continues a replacement, or the reason why it cannot. `note` receives messages. */
  def goOn(
      now: WindowedAggregate,
      was: DrainHeader,
      clock: CheckpointClock,
      note: String => Unit
  ): Either[String, LogicalPlan] = {
    val requested = windowOf(now).describe
    val at = clock.committed(now.rules.onProcessingTime)
    if (requested == was.next.window.describe)
      Right(
        if (was.drain.isOver(at)) now.copy(terms = now.terms.copy(drained = Some(was.boundary)))
        else {
          note(s"${was.draining.window.describe} still drains: ${was.inWords}")
          node(now, was.draining, was.drain)
        }
      )
    else {
      val fix =
        if (was.drain.isOver(at)) "Start the query once with it, which completes the change"
        else
          s"Keep it until the clock has reached ${DrainHeader.instant(was.until)}; it is ${Duration.describe(was.until - at)} " +
            "behind"
      Left(
        s"window was [${was.next.describe}], which has taken the place of [${was.draining.describe}], and is now [$requested]: one " +
          s"change comes after another. $fix"
      )
    }
  }
}
