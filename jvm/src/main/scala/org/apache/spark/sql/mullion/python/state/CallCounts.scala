package org.apache.spark.sql.mullion.python.state

/** How often Python was called. */
private[mullion] final class CallCounts {
  var process = 0L
  var callbacks = 0L

  /** How many rows needed no call, for the JVM did what it would have done. */
  var folded = 0L
}
