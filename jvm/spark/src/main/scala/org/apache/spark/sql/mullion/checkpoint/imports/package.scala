package org.apache.spark.sql.mullion.checkpoint

/** The state of Spark's own windows, from which a savepoint makes panes.
  */
package object imports
