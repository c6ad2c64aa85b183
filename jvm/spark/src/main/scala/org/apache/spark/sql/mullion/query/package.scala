package org.apache.spark.sql.mullion

/** The driver's view of a running query: the query of a plan ([[RunningQuery]]), its clocks ([[DriverClock]]), the
  * stream that holds back its watermark ([[WatermarkHolder]]), and batches that only bring the time ([[Tick]]). `note`
  * has Mullion's files in its checkpoint.
  */
package object query
