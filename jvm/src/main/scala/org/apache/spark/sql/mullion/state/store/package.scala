package org.apache.spark.sql.mullion.state

/** Partitions in RocksDB, with records in memory beside it (these are hot). The provider owns what it keeps in memory
  * and frees it with its query; bytes are acquired from [[HotMemory]] before they are used, as storage memory that
  * Spark may take back.
  */
package object store
