package dev.mullion

import org.apache.spark.sql.mullion.plan.build.WindowedBuilder
import org.apache.spark.sql.mullion.plan.options.WindowOptions
import org.apache.spark.sql.mullion.request.UnknownColumns
import org.apache.spark.sql.mullion.shim.Classic
import org.apache.spark.sql.{Column, DataFrame}

/** Rows in panes, before the aggregates are chosen. */
final class Windowed private[mullion] (df: DataFrame, window: Window, by: Seq[Column], options: WindowOptions) {

  /** One row per firing of a pane: the keys, `window`, the aggregates, and `pane` where panes fire more than once.
    *
    * A stream runs in append or update mode. A batch returns the closing rows of a stream over the same input.
    *
    * @throws MullionException
    *   for invalid arguments, with the fix
    */
  def agg(aggregate: Column, more: Column*): DataFrame = panes(options, aggregate +: more)

  /** One row per firing of a pane: the keys, `window`, `pane`, and the pane's rows as an array of structs.
    *
    * @param byTime
    *   whether rows are in event-time order instead of arrival order
    * @param maxRows
    *   the limit of rows per pane; a pane with more fails the query
    */
  def collect(name: String = "rows", byTime: Boolean = false, maxRows: Long = 1000000L): DataFrame =
    panes(options.withCollect(byTime, name, maxRows), Nil)

  private def panes(options: WindowOptions, aggregates: Seq[Column]): DataFrame = {
    Facade.install(df.sparkSession)
    val rows = Classic.frame(df)
    val columns = Seq(
      "time" -> options.time,
      "ranges" -> options.ranges,
      "gap" -> options.gap,
      "window" -> options.trigger,
      "ends_with" -> options.endsWith
    ).flatMap { case (parameter, column) => column.map(parameter -> _) } ++
      by.map("by" -> _) ++ options.dedupeBy.map("dedupe_by" -> _) ++ aggregates.map("aggregates" -> _)
    UnknownColumns.named(rows, columns)(WindowedBuilder(rows, window.spec, by, options, aggregates))
  }
}
