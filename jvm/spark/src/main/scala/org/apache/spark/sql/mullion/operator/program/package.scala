package org.apache.spark.sql.mullion.operator

/** The programs of operators, created on the driver and run in the tasks: [[WindowProgram]] for one window,
  * [[TogetherProgram]] for several. A program determines the records in state, the header, and the engine from `panes`
  * for a partition. [[StateAdaptation]] converts the state of a changed query.
  */
package object program
