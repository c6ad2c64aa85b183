package org.apache.spark.sql.mullion.expressions

/** Expressions over the columns of one row: time, gap, ranges, shard, place in the batch.
  */
package object columns
