package org.apache.spark.sql.mullion.expressions.rows

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{BooleanType, DataType}
import org.apache.spark.util.LongAccumulator

/** A condition that counts the rows for which it is not true.
  * {{{
  *   condition   true  false  null  true     unchanged
  *   count       0     1      2     2        in one accumulator of the cluster
  * }}}
  * Spark's `observe` counts as well, but as an operator that ends the generated code before it and iterates over rows.
  * This costs a branch.
  *
  * Like every accumulator, it counts the work of successful tasks: a row that is read again, because its batch or its
  * stage ran again, is counted again. It is marked as nondeterministic, so that the optimizer never moves, duplicates
  * or drops it.
  */
case class Counted(child: Expression, count: LongAccumulator) extends UnaryExpression {
  override lazy val deterministic: Boolean = false

  override def dataType: DataType = BooleanType

  override def prettyName: String = "counted"

  override protected def stringArgs: Iterator[Any] = Iterator(child)

  override def eval(input: InternalRow): Any = {
    val value = child.eval(input)
    if (value != true) count.add(1L)
    value
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val condition = child.genCode(ctx)
    val counter = ctx.addReferenceObj("count", count, classOf[LongAccumulator].getName)
    ev.copy(
      code = code"""
        ${condition.code}
        if (${condition.isNull} || !${condition.value}) $counter.add(1L);""",
      isNull = condition.isNull,
      value = condition.value
    )
  }

  override protected def withNewChildInternal(newChild: Expression): Counted = copy(child = newChild)
}

object Counted {
  def column(condition: Column, count: LongAccumulator): Column =
    ExpressionUtils.column(Counted(ExpressionUtils.expression(condition), count))
}
