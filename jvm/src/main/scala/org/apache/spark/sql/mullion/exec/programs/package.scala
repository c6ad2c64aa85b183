package org.apache.spark.sql.mullion.exec

/** What an operator does, made on the driver and run in the tasks: for one window [[WindowProgram]], for several
  * [[TogetherProgram]]. A program says which records there are in state, what its header is, and which engine of
  * `panes` works on a partition. State of a query that has changed is made to fit by [[StateAdaptation]].
  */
package object programs
