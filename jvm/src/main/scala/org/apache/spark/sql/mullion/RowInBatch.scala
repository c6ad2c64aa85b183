package org.apache.spark.sql.mullion

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.{Expression, LeafExpression, Nondeterministic}
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{DataType, LongType}

/** A row's place in its micro-batch, as the source is read: by partition, and within one by order.
  * {{{
  *   partition 0    0, 1, 2          partition 1    2^33, 2^33 + 1
  * }}}
  * It is to a stream what Spark's `monotonically_increasing_id` is to a batch, which Spark refuses in streams because
  * its numbers begin again with each batch. Here they are meant to: a batch has its own time beside them.
  */
case class RowInBatch() extends LeafExpression with Nondeterministic with CodegenFallback {
  @transient private[this] var next = 0L

  override def stateful: Boolean = true

  override def nullable: Boolean = false

  override def dataType: DataType = LongType

  override def prettyName: String = "row_in_batch"

  override protected def initializeInternal(partitionIndex: Int): Unit = next = partitionIndex.toLong << 33

  override protected def evalInternal(input: InternalRow): Any = {
    val row = next
    next += 1
    row
  }

  override def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): Expression = RowInBatch()
}

object RowInBatch {
  def column: Column = ExpressionUtils.column(RowInBatch())
}
