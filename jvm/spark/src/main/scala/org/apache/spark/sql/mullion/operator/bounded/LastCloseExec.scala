package org.apache.spark.sql.mullion.operator.bounded

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.mullion.operator.engine.output.{LastClose, LastCloseValues}

/** On a batch DataFrame: closes that take values from the close of the same key before them. */
case class LastCloseExec(keys: Seq[Attribute], window: Attribute, results: Int, rule: LastClose, child: SparkPlan)
    extends KeyInOrderExec {

  override protected def order: Attribute = window

  // The first pane of a key has no previous values.
  override def output: Seq[Attribute] = child.output.map(_.withNullability(true))

  override protected def doExecute(): RDD[InternalRow] = {
    val (input, key, number, takes) = (child.output, keys, results, rule)
    child.execute().mapPartitions { rows =>
      val keyOf = UnsafeProjection.create(key, input)
      val values = new LastCloseValues(input, key.length, number, takes)
      var current = Option.empty[UnsafeRow]
      var last: UnsafeRow = None.orNull
      rows.map { row =>
        val rowKey = keyOf(row)
        if (!current.contains(rowKey)) {
          current = Some(rowKey.copy())
          last = None.orNull
        }
        val closed = values.close(row, last)
        last = values.recordOf(row, last).copy()
        closed
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): LastCloseExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String = s"$nodeName ${keys.map(_.name).mkString("[", ", ", "]")}"
}
