package org.apache.spark.sql.mullion.operator

/** Rows from a previous stage. */
private[mullion] trait RowsOfStage {

  /** True if the stage received rows in this batch. */
  def rowsCame: Boolean
}
