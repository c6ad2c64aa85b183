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
    *
    * @throws MullionException
    *   for an `n` below 1, or without columns
    */
  def topN(n: Int, orderBy: Column, columns: Column*): Column = {
    val example = "topN(10, col(\"price\"), col(\"item\"))"
    if (n < 1)
      throw MullionException.invalid(s"n = $n is not a number of rows. Write 1 or more, as in $example.")
    if (columns.isEmpty)
      throw MullionException.invalid(
        s"topN has no columns, so its rows would have no values. Name the columns of a row after orderBy, as in $example."
      )
    Facade.install(SparkSession.active)
    call_function(TopN.name, lit(n) +: orderBy +: columns: _*)
  }
}
