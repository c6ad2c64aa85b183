package org.apache.spark.sql.mullion.pyfunction.state

/** The number of calls of Python. */
private[mullion] final class CallCounts {
  var process = 0L
  var callbacks = 0L

  /** The number of rows processed by the JVM instead. */
  var folded = 0L
}
