package org.apache.spark.sql.mullion.topics

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{DataType, StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/** The shape of a JSON text, see [[JsonShape]], if columns hold its exact value; otherwise [[JsonText.Unfit]]. See
  * [[JsonText.fit]].
  */
case class JsonFit(child: Expression, columns: StructType, isScalar: Boolean) extends UnaryExpression {
  @transient private lazy val kind = JsonKind.of(columns)

  override def nullable: Boolean = true

  override def dataType: DataType = StringType

  override def prettyName: String = "json_fit"

  override protected def nullSafeEval(input: Any): Any = of(input.asInstanceOf[UTF8String])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val self = ctx.addReferenceObj("jsonFit", this)
    nullSafeCodeGen(
      ctx,
      ev,
      text => s"""
        ${ev.value} = $self.of($text);
        ${ev.isNull} = ${ev.value} == null;
      """
    )
  }

  def of(text: UTF8String): UTF8String = JsonText.fit(text, kind, isScalar)

  override protected def withNewChildInternal(newChild: Expression): JsonFit = copy(newChild)
}

object JsonFit {
  def column(text: Column, columns: StructType, isScalar: Boolean): Column =
    ExpressionUtils.column(JsonFit(ExpressionUtils.expression(text), columns, isScalar))
}
