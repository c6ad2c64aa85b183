package org.apache.spark.sql.mullion.plan

/** The options of a window and of its panes, as any caller states them, and the checks that need no columns.
  */
package object options
