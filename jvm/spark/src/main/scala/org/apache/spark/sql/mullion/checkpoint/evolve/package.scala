package org.apache.spark.sql.mullion.checkpoint

/** The plan of a changed query over the checkpoint of an earlier one: windows that drain, move or keep their state.
  */
package object evolve
