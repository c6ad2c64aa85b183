package org.apache.spark.sql.mullion

/** A checkpoint, read from outside of its query: its open panes ([[PanesReader]], [[OpenPanes]]), state that was lost
  * ([[LostState]]), and a query taken back to a batch whose state is whole ([[Recovery]]).
  */
package object checkpoint
