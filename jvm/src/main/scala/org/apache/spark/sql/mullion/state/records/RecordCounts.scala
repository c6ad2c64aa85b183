package org.apache.spark.sql.mullion.state.records

/** What was done to the records of a partition: how many were found or scanned, and how many put, less those removed.
  */
private[state] final class RecordCounts {
  var read = 0L
  var added = 0L
}
