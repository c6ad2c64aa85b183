package org.apache.spark.sql.mullion.operator.engine

/** Sessions: panes that grow and merge with their rows ([[SessionPanes]]), and their accumulators, in the key's record
  * or in their own ([[SessionSums]]).
  */
package object session
