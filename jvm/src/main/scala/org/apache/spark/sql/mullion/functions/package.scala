package org.apache.spark.sql.mullion

/** The functions that SQL and DataFrames can call to ask which windows a time is in, without an operator:
  * `mullion_window_start` and the like, registered by [[SqlFunctions]]. docs/functions.md lists them.
  */
package object functions
