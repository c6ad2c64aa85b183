package org.apache.spark.sql.mullion

/** A checkpoint, read and written outside of its query.
  * {{{
  *   layout      where the state of each operator is, and which batch committed last
  *   evolve      the plan of a changed query over an existing checkpoint
  *   inspect     open panes and records, as DataFrames
  *   compare     the differences between a checkpoint and a query, before it starts
  *   imports     the state of Spark's own windows
  *   savepoint   a new checkpoint with other partitions or formats
  *   recover     the newest batch whose state is complete
  * }}}
  */
package object checkpoint
