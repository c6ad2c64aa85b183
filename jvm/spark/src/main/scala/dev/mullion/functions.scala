package dev.mullion

import org.apache.spark.sql.Column
import org.apache.spark.sql.functions.call_function

/** Functions over aggregates, for `windowed(...).agg(...)`. */
object functions {

  /** The value of an aggregate in the pane of the same key that closed before: `sum("v") - previous(sum("v"))`. Null
    * for the first pane of a key, and in all firings before the close.
    *
    * @param aggregate
    *   an aggregate, or an expression over aggregates and keys
    */
  def previous(aggregate: Column): Column = call_function("mullion_previous", aggregate)
}
