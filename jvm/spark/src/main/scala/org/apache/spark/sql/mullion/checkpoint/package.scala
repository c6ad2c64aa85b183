package org.apache.spark.sql.mullion

/** Checkpoints outside of their queries: their open panes ([[PanesReader]], [[OpenPanes]]), recovery of lost state
  * ([[Recovery]]), continuation of a changed query ([[ContinueAtStart]], [[Comparison]]), and copies ([[Savepoint]]).
  */
package object checkpoint
