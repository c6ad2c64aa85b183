package org.apache.spark.sql.mullion.expressions.rows

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeGenerator, CodegenContext, ExprCode, JavaCode}
import org.apache.spark.sql.catalyst.expressions.{BinaryExpression, Expression}
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{BooleanType, DataType}
import org.apache.spark.unsafe.types.UTF8String

/** A condition that only depends on a text, which is the same for many consecutive rows: it is evaluated when the text
  * changes.
  * {{{
  *   text        a          a     a     b          b      a
  *   condition   evaluated              evaluated         evaluated
  *   value       true       true  true  false      false  true
  * }}}
  * Examples are the name of the file that rows are read from, and the names of their columns.
  */
case class PerText(text: Expression, condition: Expression) extends BinaryExpression {
  // The previous row's: null before the first, and after a null.
  @transient private[this] var last: UTF8String = _
  @transient private[this] var value: Any = _

  override def stateful: Boolean = true

  override def left: Expression = text

  override def right: Expression = condition

  override def nullable: Boolean = condition.nullable

  override def dataType: DataType = BooleanType

  override def prettyName: String = "per_text"

  override def eval(input: InternalRow): Any = {
    val now = text.eval(input).asInstanceOf[UTF8String]
    if (now == null || now != last) {
      value = condition.eval(input)
      last = if (now == null) null else now.clone()
    }
    value
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val now = text.genCode(ctx)
    val evaluation = condition.genCode(ctx)
    val last = ctx.addMutableState(classOf[UTF8String].getName, "lastText")
    val isNull = ctx.addMutableState(CodeGenerator.JAVA_BOOLEAN, "lastIsNull")
    val value = ctx.addMutableState(CodeGenerator.JAVA_BOOLEAN, "lastValue")
    ev.copy(
      code = code"""
        ${now.code}
        if (${now.isNull} || !${now.value}.equals($last)) {
          ${evaluation.code}
          $isNull = ${evaluation.isNull};
          $value = ${evaluation.value};
          $last = ${now.isNull} ? null : ${now.value}.clone();
        }""",
      isNull = JavaCode.isNullGlobal(isNull),
      value = JavaCode.global(value, BooleanType)
    )
  }

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): PerText =
    copy(newLeft, newRight)
}

object PerText {
  def column(text: Column, condition: Column): Column =
    ExpressionUtils.column(PerText(ExpressionUtils.expression(text), ExpressionUtils.expression(condition)))
}
