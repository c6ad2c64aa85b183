package org.apache.spark.sql.mullion.exec.panes

import org.apache.spark.sql.catalyst.InternalRow

/** Work in steps, as in apply, fire, store, whose rows are pulled one by one and never held together: a step is taken
  * once the rows of the steps before it are used up.
  */
private[exec] object Steps {
  implicit final class Rows(private val rows: Iterator[InternalRow]) extends AnyVal {

    /** The rows, and then a step that gives none. */
    def andThen(step: => Unit): Iterator[InternalRow] = rows ++ { step; Iterator.empty }
  }
}
