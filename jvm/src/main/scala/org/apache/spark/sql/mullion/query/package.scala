package org.apache.spark.sql.mullion

/** A running query, seen from the driver: which one a plan belongs to ([[RunningQuery]]), its clocks ([[DriverClock]]),
  * rows that only bring the time ([[Tick]]), and files of its checkpoint beside Spark's ([[CheckpointFiles]],
  * [[WatermarkNote]], [[ClockNote]]).
  */
package object query
