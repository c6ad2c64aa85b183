package org.apache.spark.sql.mullion.exec

/** What operators of ours count beside what Spark counts of every operator with state. Each metric stands in
  * docs/metrics.md.
  */
package object metrics
