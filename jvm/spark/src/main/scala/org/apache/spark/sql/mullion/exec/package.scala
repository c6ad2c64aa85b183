package org.apache.spark.sql.mullion

/** The operator, and the nodes below it in a batch's plan.
  * {{{
  *   scan -> assign -> partial aggregate -> [shuffle by key] -> WindowExec -> firings
  *           the panes of a row                                  panes: one engine per kind of window
  * }}}
  * {{{
  *   metrics    metrics                         assign   below the partial aggregate, and late rows that bypass it
  *   panes      the engines, by kind of window  batch    nodes for batch DataFrames only
  *   programs   the choice of engines           partial  the partial aggregate
  * }}}
  * [[WindowExec]] is the stateful operator for Spark: it opens partitions, passes rows to a program, and keeps clocks.
  * It makes no decisions about panes.
  */
package object exec
