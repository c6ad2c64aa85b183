package org.apache.spark.sql.mullion.state

/** The changes of a batch as few large values: a segment holds the changed records of one partition. A batch therefore
  * writes a dozen values to RocksDB instead of thousands. Old segments are merged over time.
  */
package object packed
