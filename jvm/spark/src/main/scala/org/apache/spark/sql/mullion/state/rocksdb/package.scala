package org.apache.spark.sql.mullion.state

/** Partitions in RocksDB, with cached ("hot") records. The provider owns the cache and frees it with its query. Memory
  * is acquired from [[CacheMemory]] before use, as storage memory that Spark may evict.
  */
package object rocksdb
