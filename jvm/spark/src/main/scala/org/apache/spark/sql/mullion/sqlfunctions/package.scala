package org.apache.spark.sql.mullion

/** Functions in SQL and DataFrames that need no operator: `mullion_window_start` and others for the windows of a time,
  * and the aggregate `mullion_top_n`. They are registered by [[SqlFunctions]]. docs/guides/functions.md lists them.
  */
package object sqlfunctions
