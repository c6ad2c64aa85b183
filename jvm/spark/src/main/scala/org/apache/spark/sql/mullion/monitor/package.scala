package org.apache.spark.sql.mullion

/** Reports of running queries: the counts of each operator after each batch ([[QueryMonitor]]), as metrics of Spark's
  * metrics system ([[OperatorSource]]), as log messages ([[QueryLog]]), and as a tab of the web UI (`monitor.ui`).
  *
  * A report contains the counts that an operator has anyway, and the ends of open panes, which the operator counts as
  * panes open and close: see `OpenEnds`.
  */
package object monitor
