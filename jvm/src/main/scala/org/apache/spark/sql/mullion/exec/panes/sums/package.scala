package org.apache.spark.sql.mullion.exec.panes

/** What panes hold: accumulators at work and at rest ([[Accumulators]]), what an engine notes beside them
  * ([[PaneNotes]]), and those that grow with every row, in chunks and with a limit ([[PaneSums]]).
  *
  * How they stand in state is the checkpoint's format: a change of columns or of their order needs a new one.
  */
package object sums
