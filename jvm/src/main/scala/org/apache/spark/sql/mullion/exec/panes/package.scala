package org.apache.spark.sql.mullion.exec

/** The engines: one partition's windows in one batch. A [[PaneEngine]] takes partial aggregates or rows, merges them
  * into the panes in state, and gives firings.
  * {{{
  *   rows -> keys      which panes a key has, when they are due        (sums.PaneSums, keys.KeyRecord: state)
  *           sums      what they hold so far
  *           grid, sessions, arrival: an engine for each kind of window
  *           firings   the rows that come out
  * }}}
  * Here is what all engines have: the interface, what they know of their window ([[PaneProgram]], [[PartialLayout]],
  * [[RowProgram]]), what they count, and how late rows and the end of the input come out.
  *
  * Decisions are asked of `dev.mullion.windows`; here rows, buffers and records are moved. Nothing is allocated per
  * row.
  */
package object panes
