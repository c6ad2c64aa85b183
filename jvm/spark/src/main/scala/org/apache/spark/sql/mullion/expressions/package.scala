package org.apache.spark.sql.mullion

/** Catalyst expressions and aggregate functions in Mullion's plans: the gap of a session by row, collected rows,
  * functions that split windows, names of columns. State between rows is only in the buffers of aggregates.
  */
package object expressions
