package dev.mullion

import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.sql.mullion.builders.{WindowOptions, WindowedBuilder}
import org.apache.spark.sql.mullion.shim.Classic

/** Rows in panes, of which it is yet to be said what they hold. */
final class Windowed private[mullion] (df: DataFrame, window: Window, by: Seq[Column], options: WindowOptions) {

  /** A row for each firing of a pane: the keys, `window`, the aggregates, and `pane` where panes fire more than once. A
    * stream in append or update mode; a batch gives what a stream over its rows would close with.
    *
    * @throws MullionException
    *   for what cannot be, with the fix
    */
  def agg(aggregate: Column, more: Column*): DataFrame = panes(options, aggregate +: more)

  /** A row for each firing of a pane: the keys, `window`, `pane`, and the pane's rows as an array of structs.
    *
    * @param byTime
    *   whether rows are in the order of event time, and not of arrival
    * @param maxRows
    *   the most rows of a pane; one with more fails the query
    */
  def collect(name: String = "rows", byTime: Boolean = false, maxRows: Long = 1000000L): DataFrame =
    panes(options.withCollect(byTime, name, maxRows), Nil)

  private def panes(options: WindowOptions, aggregates: Seq[Column]): DataFrame = {
    Facade.install(df.sparkSession)
    WindowedBuilder(Classic.frame(df), window.spec, by, options, aggregates)
  }
}
