package org.apache.spark.sql.mullion.expressions.columns

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeGenerator, CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.{Expression, LeafExpression, Nondeterministic}
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{DataType, LongType}

/** A row's order in its micro-batch: by partition, and within one by reading order.
  * {{{
  *   partition 0    0, 1, 2          partition 1    2^33, 2^33 + 1
  * }}}
  * It is the streaming counterpart of Spark's `monotonically_increasing_id`, which Spark rejects in streams because its
  * numbers restart with each batch. Here they may, because the number of the batch is used too.
  */
case class RowInBatch() extends LeafExpression with Nondeterministic {
  @transient private[this] var next = 0L

  override def stateful: Boolean = true

  override def nullable: Boolean = false

  override def dataType: DataType = LongType

  override def prettyName: String = "row_in_batch"

  override protected def initializeInternal(partitionIndex: Int): Unit = next = RowInBatch.firstOf(partitionIndex)

  override protected def evalInternal(input: InternalRow): Any = {
    val row = next
    next += 1
    row
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val next = ctx.addMutableState(CodeGenerator.JAVA_LONG, "rowInBatch")
    ctx.addPartitionInitializationStatement(s"$next = ${classOf[RowInBatch].getName}.firstOf(partitionIndex);")
    ev.copy(code = code"final long ${ev.value} = $next++;", isNull = FalseLiteral)
  }

  override def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): Expression = RowInBatch()
}

object RowInBatch {
  def column: Column = ExpressionUtils.column(RowInBatch())

  /** The number of a partition's first row; called by generated code too. */
  def firstOf(partition: Int): Long = partition.toLong << 33
}
