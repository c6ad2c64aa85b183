package org.apache.spark.sql.mullion.query

/** Mullion's files in the checkpoint of a query ([[CheckpointFiles]]): the time and the watermark of a batch
  * ([[ClockNote]], [[WatermarkNote]]), the first watermark ([[FirstReading]]), the watermarks of its streams
  * ([[WatermarkLog]]), a recovery ([[RecoveryNote]]).
  */
package object note
