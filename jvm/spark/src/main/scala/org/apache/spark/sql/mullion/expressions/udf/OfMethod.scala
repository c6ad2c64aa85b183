package org.apache.spark.sql.mullion.expressions.udf

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.types.DataType

/** A value that `add_row` of a class adds to a part of its accumulator.
  *
  * Its SQL is the call, not the code of the class. So the state of a class continues after its code was corrected, as
  * it does where the class runs in Python.
  *
  * {{{
  *   IF(v > 10, 1, 0)   is   Above(v).add_row[0]
  * }}}
  *
  * @param call
  *   the class with its columns and parameters
  */
final case class OfMethod(child: Expression, call: String, part: Int) extends UnaryExpression {
  override def dataType: DataType = child.dataType

  override def nullable: Boolean = child.nullable

  override def foldable: Boolean = false

  override def sql: String = s"$call.add_row[$part]"

  override def eval(input: InternalRow): Any = child.eval(input)

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = child.genCode(ctx)

  override protected def withNewChildInternal(newChild: Expression): OfMethod = copy(child = newChild)
}
