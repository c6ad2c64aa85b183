package org.apache.spark.sql.mullion

/** A checkpoint, read from outside of its query: its open panes ([[PanesReader]], [[OpenPanes]]), a query taken back to
  * a batch whose state is whole ([[Recovery]]), one that has changed and goes on ([[ContinueAtStart]], [[Comparison]]),
  * and a checkpoint made of another one ([[Savepoint]]).
  */
package object checkpoint
