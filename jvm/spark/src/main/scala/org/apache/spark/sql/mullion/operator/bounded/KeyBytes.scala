package org.apache.spark.sql.mullion.operator.bounded

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.types.{BinaryType, DataType}

/** The bytes of a key in a row. Spark's grouping compares these bytes, so sorting by them groups the rows of a key,
  * whatever the types of its columns.
  */
private[operator] case class KeyBytes(children: Seq[Expression]) extends Expression with CodegenFallback {
  @transient private lazy val toRow = UnsafeProjection.create(children)

  override def eval(input: InternalRow): Any = toRow(input).getBytes

  override def dataType: DataType = BinaryType

  override def nullable: Boolean = false

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): KeyBytes = copy(newChildren)
}
