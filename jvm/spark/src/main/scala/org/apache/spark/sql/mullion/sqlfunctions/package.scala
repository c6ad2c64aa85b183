package org.apache.spark.sql.mullion

/** Functions in SQL and DataFrames for the windows of a time, without an operator: `mullion_window_start` and others,
  * registered by [[SqlFunctions]]. docs/functions.md lists them.
  */
package object sqlfunctions
