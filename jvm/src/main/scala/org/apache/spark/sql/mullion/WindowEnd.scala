package org.apache.spark.sql.mullion

import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.types.{DataType, LongType}

import dev.mullion.windows.TimeMath

/** The end of a window that starts at `child` and is `size` long, both in microseconds; clamped to the end of time. */
case class WindowEnd(child: Expression, size: Long) extends UnaryExpression {
  override def dataType: DataType = LongType

  override protected def nullSafeEval(start: Any): Any = TimeMath.plus(start.asInstanceOf[Long], size)

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode =
    defineCodeGen(ctx, ev, start => s"dev.mullion.windows.TimeMath.plus($start, ${size}L)")

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}
