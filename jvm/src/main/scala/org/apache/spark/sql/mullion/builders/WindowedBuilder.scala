package org.apache.spark.sql.mullion.builders

import org.apache.spark.sql.Column
import org.apache.spark.sql.classic.{DataFrame, Dataset}
import org.apache.spark.sql.mullion.expressions.{AccumulatorLimit, CustomRanges, SessionGap}

import dev.mullion.windows.spec.WindowSpec

/** Turns `windowed(df, …).agg(…)` into a plan, in three steps.
  *
  * {{{
  *   AnalysedCall   the columns, as Spark's analysis has them
  *   CallChecks     what cannot be right is refused; what shows without columns, by WindowChecks
  *   WindowNode     the node, and what is shown of it
  * }}}
  */
object WindowedBuilder {

  def apply(
      df: DataFrame,
      window: WindowSpec,
      by: Seq[Column],
      options: WindowOptions,
      aggregates: Seq[Column]
  ): DataFrame =
    // Spark's analysis, and ours, ask the active session for its settings.
    df.sparkSession.withActive {
      AccumulatorLimit.of(df.sparkSession.sessionState.conf)
      val call = AnalysedCall(df, window, by, options, aggregates)
      CallChecks(call)
      Dataset.ofRows(df.sparkSession, new WindowNode(call).shown.plan)
    }

  /** Refuses what shows to be wrong before anybody has said what panes hold. */
  def check(df: DataFrame, window: WindowSpec, by: Seq[Column], options: WindowOptions): Unit =
    df.sparkSession.withActive {
      WindowChecks(window, options)
      CallChecks.names(df, WindowKeys.namesOf(df, by), Nil, options.late).foreach(throw _)
      WindowKeys.checkTypes(df, by)
      options.time.foreach(TimeColumn.eventTime(df, _))
      options.gap.foreach(SessionGap(df, _))
      options.ranges.foreach(CustomRanges(df, _))
    }
}
