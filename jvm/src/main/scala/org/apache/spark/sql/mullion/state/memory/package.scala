package org.apache.spark.sql.mullion.state

/** Records in memory: a sorted map with versions ([[SortedRecords]]) of leaves ([[Leaf]]), up to 128 records each,
  * where a version shares with the one before what did not change. Rows that it hands out stand until the next call;
  * who keeps one copies it.
  */
package object memory
