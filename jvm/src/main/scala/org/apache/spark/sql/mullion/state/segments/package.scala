package org.apache.spark.sql.mullion.state

/** The changes of a batch as few large values: a segment holds the changed records of one partition, so a batch puts a
  * dozen values into RocksDB and not thousands. Old ones are merged as batches go by.
  */
package object segments
