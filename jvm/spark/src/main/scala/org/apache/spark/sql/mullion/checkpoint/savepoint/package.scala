package org.apache.spark.sql.mullion.checkpoint

/** Savepoints: checkpoints made of others, with another number of partitions or another format.
  */
package object savepoint
