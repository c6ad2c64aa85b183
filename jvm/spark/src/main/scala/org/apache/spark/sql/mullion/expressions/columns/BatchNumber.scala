package org.apache.spark.sql.mullion.expressions.columns

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodeGenerator, CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.{Expression, LeafExpression}
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{DataType, LongType}

/** The number of a row's micro-batch, below one of Mullion's operators: with [[RowInBatch]] the row's order of arrival.
  * The time of a batch is not enough, because two batches may have the same, and a clock may be set back.
  *
  * @param number
  *   set once the batch is planned
  */
case class BatchNumber(number: Option[Long]) extends LeafExpression {
  override def nullable: Boolean = false

  override def foldable: Boolean = false

  override def dataType: DataType = LongType

  override def prettyName: String = "batch_number"

  override def eval(input: InternalRow): Any = numberOfBatch

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    // A reference instead of a literal, so that the code is compiled once for all batches.
    val reference = ctx.addReferenceObj("batchNumber", Long.box(numberOfBatch), classOf[java.lang.Long].getName)
    val number = ctx.addMutableState(CodeGenerator.JAVA_LONG, "batchNumber", name => s"$name = $reference;")
    ev.copy(code = code"final long ${ev.value} = $number;", isNull = FalseLiteral)
  }

  private def numberOfBatch: Long =
    number.getOrElse(throw new IllegalStateException("batch_number() is only known below a window of a stream."))
}

object BatchNumber {
  def column: Column = ExpressionUtils.column(BatchNumber(None))

  /** An expression of a batch's plan, with the number of the batch. */
  def forBatch(number: Long): PartialFunction[Expression, Expression] = { case BatchNumber(_) =>
    BatchNumber(Some(number))
  }
}
