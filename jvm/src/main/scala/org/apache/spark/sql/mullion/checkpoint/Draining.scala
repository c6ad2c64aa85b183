package org.apache.spark.sql.mullion.checkpoint

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LogicalPlan}
import org.apache.spark.sql.mullion.plan.{Refusals, WindowedAggregate, Windows, WindowsTogether}
import org.apache.spark.sql.mullion.python.ProcessedRows
import org.apache.spark.sql.mullion.state.header.{DrainHeader, RecordPlaces, StateHeader}

import dev.mullion.windows.clock.PaneClock
import dev.mullion.windows.rules.{Drain, LatePolicy, PaneRules, Refinements}
import dev.mullion.windows.spec.{Duration, RowNumberWindow, TimeMath}

/** The node of a query whose window takes another's place: both windows over the same rows, in one operator, with what
  * the new one shows.
  *
  * {{{
  *   WindowedAggregate 2 hours ── rows   ->   WindowsTogether [1 hour until 12:00, 2 hours from 12:00] ── rows
  * }}}
  */
private[checkpoint] object Draining {

  /** The node of a query that begins with another window, or why it cannot. */
  def begin(now: WindowedAggregate, was: StateHeader, clock: CheckpointClock): Either[String, WindowsTogether] =
    whyNot(now, was, clock).toLeft {
      val rules = rulesBefore(now, was, was.refinements)
      val next = Carried.added(Carried.delay(now, was), clock)
      node(next, was, Drain(rules, now.rules, seen(now, was, clock)))
    }

  private def whyNot(now: WindowedAggregate, was: StateHeader, clock: CheckpointClock): Option[String] =
    if (was.rows.isDefined || now.rows.isDefined) Some("rows are worked on one by one, in order of arrival")
    else if (ProcessedRows.areIn(now.child)) Some("a stage before it has distributed its rows")
    else if (now.child.exists(isStateful))
      Some("its rows come out of another operator with state, whose clock is behind that of the stream")
    else
      Drain.refusal(rulesBefore(now, was, was.refinements), now.rules).orElse {
        // The rows of the next batch are late by the clock that the last one had.
        val closed = was.closedTo.map(TimeMath.plus(_, was.allowedLateness)).filter(_ > clock.committed)
        closed
          .map(due => s"its lateness has just changed: that can be once the clock comes to ${DrainHeader.instant(due)}")
      }

  /** True if a node is of an operator with state, Spark's or ours. */
  def isStateful(plan: LogicalPlan): Boolean = plan match {
    case Windows(_) => true
    case other      => Refusals.isStateful(other)
  }

  /** A time after all rows that the query can have seen. */
  private def seen(now: WindowedAggregate, was: StateHeader, clock: CheckpointClock): Long =
    if (now.rules.onProcessingTime) TimeMath.plus(clock.wall, 1000)
    else
      // The watermark follows from the delay of before. It is in whole milliseconds.
      TimeMath.plus(clock.next, TimeMath.plus(was.delay.getOrElse(now.terms.delay), 1000))

  /** The rules of the window that was, over the rows that the new one has. */
  private def rulesBefore(now: WindowedAggregate, was: StateHeader, refinements: Refinements): PaneRules = {
    val window = was.window.spec
    val clock = if (was.clock == PaneClock.ProcessingTime.name) PaneClock.ProcessingTime else PaneClock.EventTime
    val late = window match {
      case _: RowNumberWindow => LatePolicy.Drop
      case _                  => now.rules.late
    }
    PaneRules(window, was.allowedLateness, was.early, late, refinements, clock)
  }

  /** The node of a query in which a window takes the place of the one that state is of. */
  def node(now: WindowedAggregate, was: StateHeader, drain: Drain): WindowsTogether = {
    // What firings show is the query's to say.
    val rules = rulesBefore(now, was, was.refinements.copy(ids = now.rules.refinements.ids))
    // Windows share a function, unless what it gives depends on the order of rows: then each has buffers of its own.
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

  /** A plan over the state of a window that takes another's place, where it has that window. */
  def over(plan: LogicalPlan, header: DrainHeader): LogicalPlan = AnalysisHelper.allowInvokingTransformsInAnalyzer {
    plan.transformDown {
      case one: WindowedAggregate if windowOf(one).describe == header.next.window.describe =>
        node(Carried(one, header.next), header.draining, header.drain)
    }
  }

  def windowOf(node: WindowedAggregate): StateHeader.Window =
    StateHeader.Window(node.rules.window, node.text.gap, node.text.trigger)

  /** The node of a query that finds a window draining, or why it cannot go on. `note` takes what is to be said. */
  def goOn(
      now: WindowedAggregate,
      was: DrainHeader,
      clock: CheckpointClock,
      note: String => Unit
  ): Either[String, LogicalPlan] = {
    val asked = windowOf(now).describe
    val at = clock.committed(now.rules.onProcessingTime)
    if (asked == was.next.window.describe)
      Right(
        if (was.drain.isOver(at)) now.copy(terms = now.terms.copy(drained = Some(was.boundary)))
        else {
          note(s"${was.draining.window.describe} still drains: ${was.inWords}")
          node(now, was.draining, was.drain)
        }
      )
    else {
      val fix =
        if (was.drain.isOver(at)) "Start the query once with it: what it has is put in place then"
        else
          s"Go on with it until the clock has come to ${DrainHeader.instant(was.until)}; it is ${Duration.describe(was.until - at)} " +
            "behind"
      Left(
        s"window was [${was.next.describe}], which has taken the place of [${was.draining.describe}], and is now [$asked]: one " +
          s"change comes after another. $fix"
      )
    }
  }
}
