package org.apache.spark.sql.mullion.expressions

/** Aggregates in Python: the aggregate function that collects rows and accumulators, and the worker of a task that adds
  * the rows.
  */
package object udf
