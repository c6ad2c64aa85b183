package org.apache.spark.sql.mullion.operator.engine

/** The contents of panes: accumulators at work and at rest ([[Accumulators]]), an engine's notes ([[PaneNotes]]), and
  * accumulators that grow with every row, in chunks and with a limit ([[PaneSums]]).
  *
  * Their form in state is part of the checkpoint format: a change of columns or their order needs a new format.
  */
package object accumulators
