package org.apache.spark.sql.mullion.checkpoint

/** The differences between a checkpoint and the query that is to start over it.
  */
package object compare
