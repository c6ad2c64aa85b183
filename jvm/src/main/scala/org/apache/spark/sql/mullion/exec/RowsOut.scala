package org.apache.spark.sql.mullion.exec

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric

/** The rows that come out of an operator, counted as they do, and what is to be done once there are no more.
  *
  * Scala and Spark have an iterator for each. Those have the rows of all operators go by, so to the JVM what they call
  * is one of many methods; what is called here it can inline.
  */
private[exec] final class RowsOut(private var rows: Iterator[InternalRow], count: SQLMetric)(done: => Unit)
    extends Iterator[InternalRow] {
  private var isDone = false

  override def hasNext: Boolean = rows.hasNext || {
    if (!isDone) {
      isDone = true
      // Whoever holds on to this holds on to no state.
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
