package org.apache.spark.sql.mullion.checkpoint.evolve

import org.apache.spark.sql.mullion.checkpoint.layout.CheckpointClock
import org.apache.spark.sql.mullion.plan.WindowedAggregate
import org.apache.spark.sql.mullion.state.header.StateHeader

import dev.mullion.windows.rules.Refinements

/** Facts that a window adopts from its checkpoint, because a changed query lacks them.
  *
  * {{{
  *   the checkpoint's query               this query                it also has
  *   early=Early(count=1)                 no early firings          the numbers of firings of its open panes
  *   Tumbling("1 hour") in batches 0-16   Sliding("2 hours", ...)   ids that end in #17
  *   a delay of 6 hours                   a delay of 1 minute       rows 6 hours ahead of the watermark
  * }}}
  */
private[checkpoint] object Carried {

  /** A window that continues the state of a header. */
  def apply(node: WindowedAggregate, was: StateHeader): WindowedAggregate = refined(delay(node, was)) { now =>
    val forgets = was.firesOpen && !node.rules.firesOpen
    now.copy(remembers = now.remembers || forgets, generation = was.refinements.generation)
  }

  /** A window that was added to a query with other windows. */
  def added(node: WindowedAggregate, clock: CheckpointClock): WindowedAggregate =
    refined(node)(_.copy(generation = clock.nextBatch))

  /** The watermark delay, which stays the longest so far, because it bounds the times of all rows so far. */
  def delay(node: WindowedAggregate, was: StateHeader): WindowedAggregate =
    node.copy(terms = node.terms.copy(delay = Math.max(node.terms.delay, was.delay.getOrElse(0L))))

  private def refined(node: WindowedAggregate)(change: Refinements => Refinements): WindowedAggregate =
    node.copy(terms = node.terms.copy(rules = node.rules.refined(change)))
}
