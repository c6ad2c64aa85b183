package org.apache.spark.sql.mullion.exec

/** The engines. [[PaneEngine]] is one partition's windows in one batch: it takes partial aggregates or rows, merges
  * them into the panes in state, and gives firings. One file for each kind of pane: [[TumblingPanes]],
  * [[SlidingPanes]], [[SessionPanes]], [[ArrivalPanes]] (row by row), [[SplitPanes]], [[TogetherPanes]].
  *
  * Where columns stand is said once: of partial rows in [[PartialLayout]], of a key's record in [[KeyRecord]], of what
  * is kept beside an accumulator in [[PaneNotes]].
  *
  * Decisions are asked of `dev.mullion.windows`; here rows, buffers and records are moved. Nothing is allocated per
  * row.
  */
package object panes
