package org.apache.spark.sql.mullion.state

/** Records in memory: a sorted map with versions ([[VersionedBTree]]) of leaves ([[Leaf]]) of up to 128 records each.
  * Versions share their unchanged leaves. Returned rows are valid until the next call and must be copied to be kept.
  */
package object btree
