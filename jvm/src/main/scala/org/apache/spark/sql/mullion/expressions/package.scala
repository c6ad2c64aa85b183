package org.apache.spark.sql.mullion

/** Catalyst expressions and aggregate functions that plans of ours are made of: the gap of a session by row, collected
  * rows, functions that split windows, names of columns. They hold no state between rows but what an aggregate's buffer
  * holds.
  */
package object expressions
