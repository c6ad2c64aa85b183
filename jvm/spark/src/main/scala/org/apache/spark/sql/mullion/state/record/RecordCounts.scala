package org.apache.spark.sql.mullion.state.record

/** The record counters of a partition: found or scanned, and put less removed. */
private[state] final class RecordCounts {
  var read = 0L
  var added = 0L
}
