package org.apache.spark.sql.mullion.expressions.udf

import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType

import dev.mullion.MullionException

/** A value that Python computes with, where `None` raises a `TypeError`.
  *
  * @param method
  *   the method that would fail, as in `Total.add_row`
  */
final case class NotNone(child: Expression, method: String) extends UnaryExpression {
  override def dataType: DataType = child.dataType

  /** Never null. Spark would drop the operand of `0 * x` otherwise, and its error. */
  override def nullable: Boolean = true

  override def prettyName: String = "not_none"

  override def sql: String = s"$prettyName(${child.sql})"

  override def toString: String = s"$prettyName($child)"

  override def eval(input: InternalRow): Any = {
    val value = child.eval(input)
    if (value == null) throw NotNone.error(method)
    value
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val of = child.genCode(ctx)
    if (of.isNull == FalseLiteral) of
    else {
      val name = ctx.addReferenceObj("method", method)
      ev.copy(
        code = code"""
          ${of.code}
          if (${of.isNull}) throw ${classOf[NotNone].getName}$$.MODULE$$.error($name);
        """,
        isNull = FalseLiteral,
        value = of.value
      )
    }
  }

  override protected def withNewChildInternal(newChild: Expression): NotNone = copy(child = newChild)
}

object NotNone {
  def error(method: String): MullionException = MullionException.functionFailed(
    s"$method failed: TypeError: a value is None, because a column is NULL. Nothing of the batch was kept, and the query " +
      "continues from its checkpoint once the function is fixed."
  )
}
