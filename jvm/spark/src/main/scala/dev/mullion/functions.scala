package dev.mullion

import org.apache.spark.sql.functions.{call_function, lit}
import org.apache.spark.sql.mullion.expressions.functions.TopN
import org.apache.spark.sql.{Column, SparkSession}

/** Functions for `windowed(...).agg(...)`. */
object functions {

  /** The value of an aggregate in the pane of the same key that closed before: `sum("v") - previous(sum("v"))`. Null
    * for the first pane of a key, and in all firings before the close.
    *
    * @param aggregate
    *   an aggregate, or an expression over aggregates and keys
    */
  def previous(aggregate: Column): Column = call_function("mullion_previous", aggregate)

  /** An aggregate: the values of `columns` in the `n` rows with the largest `orderBy`, the largest first. It is an
    * array of values of one column, or of structs of several. The rows are the first of `ORDER BY orderBy DESC, columns
    * LIMIT n`. It requires an active session.
    */
  def topN(n: Int, orderBy: Column, columns: Column*): Column = {
    Facade.install(SparkSession.active)
    call_function(TopN.name, lit(n) +: orderBy +: columns: _*)
  }
}
