package org.apache.spark.sql.mullion.operator

/** The engines: the windows of one partition in one batch. A [[PaneEngine]] merges partial aggregates or rows into the
  * panes in state, and returns firings.
  * {{{
  *   accumulators   the content of panes, in state and in memory
  *   timers         the panes of a key, and their due times
  *   output         a firing as a row
  *   aligned        tumbling and sliding windows, ranges of rows
  *   session        sessions
  *   rowwise        windows whose rows are processed one by one, in order of arrival
  * }}}
  * This package has the parts of all engines: their interface, the definition of their window ([[PaneProgram]],
  * [[PartialLayout]], [[RowProgram]]), their counts, late rows and the end of the input. `dev.mullion.windows` makes
  * the decisions; the code here moves rows, buffers and records, without an allocation per row.
  */
package object engine
