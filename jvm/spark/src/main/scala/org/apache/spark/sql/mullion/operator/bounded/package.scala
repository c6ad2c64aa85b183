package org.apache.spark.sql.mullion.operator

/** Nodes of batch DataFrames: all rows exist, so every pane closes once, and there is no state. They produce the panes
  * of a stream over the same rows at its end.
  */
package object bounded
