package org.apache.spark.sql.mullion.pyfunction.branch

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.{EventTimeStatsAccum, EventTimeWatermarkExec}

/** The event clock of windows that share one: the latest time of the rows of any of them.
  *
  * {{{
  *   rows of fast     1  2      8        the clock of both is at 8: fast closes, although slow
  *   rows of slow     1                  got no further row, and its own watermark would stay at 1
  * }}}
  *
  * A query has one watermark, the minimum of those in its plan. Each task therefore adds its latest time to all of
  * them.
  *
  * @param nodes
  *   the watermarks: their time accumulators, and their delays
  */
private[pyfunction] final class SharedClock(nodes: Seq[(Long, Long)]) extends Serializable {

  def spread(context: TaskContext): Unit = {
    val counting = context
      .taskMetrics()
      .accumulators()
      .collect { case stats: EventTimeStatsAccum => stats }
      .groupBy(_.id)
    val latest = nodes.flatMap { case (id, delay) =>
      counting.getOrElse(id, Nil).filter(_.value.count > 0).map(_.value.max - delay)
    }.maxOption
    for (to <- latest; (id, delay) <- nodes; stats <- counting.get(id).flatMap(_.headOption))
      if (stats.value.max < to + delay) stats.add(to + delay)
  }
}

private[pyfunction] object SharedClock {

  /** @param clocks
    *   the name of the clock of each window, if it shares one
    */
  def of(windows: Seq[SparkPlan], clocks: Seq[Option[String]]): Seq[SharedClock] = {
    val nodes = windows.zip(clocks).flatMap { case (plan, clock) =>
      val watermarks = plan.collect { case node: EventTimeWatermarkExec => node.eventTimeStats.id -> node.delayMs }
      clock.toSeq.flatMap(name => watermarks.map(name -> _))
    }
    nodes.groupMap(_._1)(_._2).values.filter(_.length > 1).map(new SharedClock(_)).toSeq
  }
}
