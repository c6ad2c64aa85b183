package org.apache.spark.sql.mullion

/** The operator of windows, and the nodes below it in a batch's plan.
  * {{{
  *   scan -> assign -> partial -> [shuffle by key] -> WindowExec -> firings
  *
  *   metrics   counts of an operator            engine    an engine for each kind of window
  *   assign    the windows of a row, late rows  program   the definition of an operator
  *   partial   aggregation before the shuffle   bounded   nodes of batch DataFrames
  *   scan      one task reads a small batch     asof      the operator of as-of joins
  * }}}
  * [[WindowExec]] is the stateful operator that Spark plans: it opens partitions, passes rows to a program, and keeps
  * clocks. It decides nothing about panes.
  */
package object operator
