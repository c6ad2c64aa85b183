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
  *   the method that would fail
  * @param reason
  *   why the value is `None`, as in `because v is NULL`
  */
final case class NotNone(child: Expression, method: TranslatedMethod, reason: String) extends UnaryExpression {
  override def dataType: DataType = child.dataType

  /** Never null. Spark would drop the operand of `0 * x` otherwise, and its error. */
  override def nullable: Boolean = true

  override def prettyName: String = "not_none"

  override def sql: String = s"$prettyName(${child.sql})"

  override def toString: String = s"$prettyName($child)"

  override def eval(input: InternalRow): Any = {
    val value = child.eval(input)
    if (value == null) throw error
    value
  }

  /** Also called by generated code. */
  def error: MullionException = method.failed(s"TypeError: a value is None, $reason")

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val of = child.genCode(ctx)
    if (of.isNull == FalseLiteral) of
    else {
      val self = ctx.addReferenceObj("strict", this)
      ev.copy(
        code = code"""
          ${of.code}
          if (${of.isNull}) throw $self.error();
        """,
        isNull = FalseLiteral,
        value = of.value
      )
    }
  }

  override protected def withNewChildInternal(newChild: Expression): NotNone = copy(child = newChild)
}
