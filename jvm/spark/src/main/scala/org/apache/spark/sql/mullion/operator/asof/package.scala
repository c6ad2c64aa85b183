package org.apache.spark.sql.mullion.operator

/** The operator of as-of joins. Rows of both sides arrive in one input, sorted by time:
  * {{{
  *   rows of both sides -> [shuffle by key] -> [sort by time] -> AsOfExec -> left rows with their matches
  * }}}
  * [[AsOfExec]] is the stateful operator that Spark plans. [[AsOfProgram]] defines its columns and its state, and
  * [[AsOfEngine]] processes a partition's batch. `dev.mullion.windows.rules.AsOfRules` makes the decisions.
  */
package object asof
