package org.apache.spark.sql.mullion.expressions.columns

import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.types.{DataType, LongType}

import dev.mullion.windows.rules.{AlignedRules, SlicedRules}

/** The start or end of the window in a column, in microseconds, clamped to the range of time.
  *
  * @param child
  *   the window's number, or its start if the rules have no slice numbers
  */
case class WindowEdge(child: Expression, rules: SlicedRules, isEnd: Boolean) extends UnaryExpression {
  override def dataType: DataType = LongType

  def of(window: Long): Long = rules match {
    case aligned: AlignedRules => if (isEnd) aligned.paneEnd(window) else aligned.paneStart(window)
    case numbered              => if (isEnd) numbered.windowEnd(window) else numbered.windowStart(window)
  }

  override protected def nullSafeEval(window: Any): Any = of(window.asInstanceOf[Long])

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val edge = ctx.addReferenceObj("edge", this, classOf[WindowEdge].getName)
    defineCodeGen(ctx, ev, window => s"$edge.of($window)")
  }

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}
