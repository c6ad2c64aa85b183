package org.apache.spark.sql.mullion.operator

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric

/** Counts the output rows of an operator, and runs an action after the last one.
  *
  * Scala and Spark have iterators for both. Those are shared by all operators, so their calls are megamorphic; the JVM
  * can inline the calls of this class.
  */
private[operator] final class CountedRows(private var rows: Iterator[InternalRow], count: SQLMetric)(done: => Unit)
    extends Iterator[InternalRow] {
  private var isDone = false

  override def hasNext: Boolean = rows.hasNext || {
    if (!isDone) {
      isDone = true
      // Releases the state even if this object is still referenced.
      rows = Iterator.empty
      done
    }
    false
  }

  override def next(): InternalRow = {
    val row = rows.next()
    count += 1
    row
  }
}
