package org.apache.spark.sql.mullion.operator

/** Metrics of Mullion's operators, in addition to Spark's metrics of stateful operators. docs/reference/metrics.md
  * documents them.
  */
package object metrics
