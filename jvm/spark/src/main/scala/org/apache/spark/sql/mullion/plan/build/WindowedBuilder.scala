package org.apache.spark.sql.mullion.plan.build

import org.apache.spark.sql.Column
import org.apache.spark.sql.classic.{DataFrame, Dataset}
import org.apache.spark.sql.mullion.expressions.columns.{CustomRanges, SessionGap}
import org.apache.spark.sql.mullion.expressions.functions.AccumulatorLimit
import org.apache.spark.sql.mullion.plan.build.analysis.{AnalysedCall, TimeColumn, WindowKeys}
import org.apache.spark.sql.mullion.plan.options.{WindowChecks, WindowOptions}

import dev.mullion.windows.spec.WindowSpec

/** Converts `windowed(df, …).agg(…)` to a plan, in three steps.
  *
  * {{{
  *   AnalysedCall   the columns, after Spark's analysis
  *   CallChecks     checks of columns; WindowChecks for all others
  *   WindowNode     the node, and its output
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
    // Spark's analysis, and Mullion's, read the settings of the active session.
    df.sparkSession.withActive {
      AccumulatorLimit.of(df.sparkSession.sessionState.conf)
      val call = AnalysedCall(df, window, by, options, aggregates)
      CallChecks(call)
      Dataset.ofRows(df.sparkSession, new WindowNode(call).shown.plan)
    }

  /** Checks a window before its aggregates are chosen. */
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
