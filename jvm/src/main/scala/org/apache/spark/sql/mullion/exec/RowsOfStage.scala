package org.apache.spark.sql.mullion.exec

/** Rows that a stage before has made. */
private[mullion] trait RowsOfStage {

  /** True if the stage was given rows in this batch. */
  def rowsCame: Boolean
}
