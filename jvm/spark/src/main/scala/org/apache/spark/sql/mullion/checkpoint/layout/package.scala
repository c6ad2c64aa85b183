package org.apache.spark.sql.mullion.checkpoint

/** The folders of a checkpoint: operators with state, committed batches, clocks.
  */
package object layout
