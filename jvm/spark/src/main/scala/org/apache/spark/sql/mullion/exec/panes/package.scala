package org.apache.spark.sql.mullion.exec

/** The engines: one partition's windows in one batch. A [[PaneEngine]] merges partial aggregates or rows into the panes
  * in state, and emits firings.
  * {{{
  *   rows -> keys      the panes of a key, and their due times         (sums.PaneSums, keys.KeyRecord: state)
  *           sums      their accumulators
  *           grid, sessions, arrival: an engine for each kind of window
  *           firings   output rows
  * }}}
  * Shared by all engines: the interface, the parameters of their window ([[PaneProgram]], [[PartialLayout]],
  * [[RowProgram]]), metrics, late rows and the end of the input.
  *
  * `dev.mullion.windows` makes the decisions; these packages move rows, buffers and records. Nothing is allocated per
  * row.
  */
package object panes
