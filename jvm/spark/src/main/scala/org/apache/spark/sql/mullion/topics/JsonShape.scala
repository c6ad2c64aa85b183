package org.apache.spark.sql.mullion.topics

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{DataType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** The shape of a JSON text; see [[JsonText]]. Null for null, and for invalid JSON. */
case class JsonShape(child: Expression) extends UnaryExpression {
  override def nullable: Boolean = true

  override def dataType: DataType = StringType

  override def prettyName: String = "json_shape"

  override protected def nullSafeEval(input: Any): Any = JsonText.shape(input.asInstanceOf[UTF8String])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode =
    nullSafeCodeGen(
      ctx,
      ev,
      text => s"""
        ${ev.value} = ${classOf[JsonText].getName}.shape($text);
        ${ev.isNull} = ${ev.value} == null;
      """
    )

  override protected def withNewChildInternal(newChild: Expression): JsonShape = copy(newChild)
}

object JsonShape {
  def column(text: Column): Column = ExpressionUtils.column(JsonShape(ExpressionUtils.expression(text)))
}
