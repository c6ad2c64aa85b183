package org.apache.spark.sql.mullion.pyfunction

/** Faust agents that only aggregate events in windowed tables, translated from their Python syntax tree and run in the
  * JVM. Everything else ([[Odd]]) is left to Python, event by event: a result equals Python's, or Python computes it.
  */
package object agents
