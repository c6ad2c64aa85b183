package org.apache.spark.sql.mullion.pyfunction

/** Windows between two stages of a function with state: their rows, plans, state and firings, all in one task.
  */
package object branch
