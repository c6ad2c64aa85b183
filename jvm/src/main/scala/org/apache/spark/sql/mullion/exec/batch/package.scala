package org.apache.spark.sql.mullion.exec

/** Nodes of DataFrames that are no stream: all rows are there, so every pane closes once, and nothing is kept. They
  * give the panes that a stream over the same rows gives at its end.
  */
package object batch
