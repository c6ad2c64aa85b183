package org.apache.spark.sql.mullion

/** The operator, and what stands below it in a batch's plan.
  * {{{
  *   scan -> assign -> partial aggregate -> [shuffle by key] -> WindowExec -> firings
  *           which panes a row enters                            panes: one engine for each kind of window
  * }}}
  * {{{
  *   metrics    what is counted                 assign   below the partial aggregate, and late rows that go round it
  *   panes      the engines, by kind of window  batch    nodes that only DataFrames which are no stream need
  *   programs   which engine works on what      partial  the partial aggregate
  * }}}
  * [[WindowExec]] is what Spark takes for the operator with state: it opens partitions, hands rows to a program, and
  * keeps clocks. It decides nothing about panes.
  */
package object exec
