package org.apache.spark.sql.mullion.checkpoint

/** The open panes and records of a checkpoint or of a running query, as DataFrames.
  */
package object inspect
