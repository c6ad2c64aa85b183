package org.apache.spark.sql.mullion.expressions.columns

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen.{
  CodeGenerator,
  CodegenContext,
  ExprCode,
  FalseLiteral,
  TrueLiteral
}
import org.apache.spark.sql.catalyst.expressions.{BinaryExpression, Expression, Literal, Nondeterministic}
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{BooleanType, DataType}
import org.apache.spark.unsafe.types.UTF8String

import dev.mullion.MullionException

/** True for a row that a first stage passes to a window in the shard of its key; fails for any other.
  *
  * {{{
  *   customer   shard        output of process    its shard
  *   Anna       0        ->  anna                 1               the pane of anna would be split: rejected
  *   Bert       1        ->  Bert                 1
  * }}}
  * There is no shuffle between a first stage and its windows, so rows of one key must be in one shard already.
  *
  * @param key
  *   the window's key, of the type by which the rows of the first stage were distributed
  * @param shown
  *   the key as text, for the error
  * @param before
  *   the error's text before the key
  * @param after
  *   the error's text after the key
  * @param shards
  *   the number of shards, once the batch is known
  */
case class InShard(key: Expression, shown: Expression, before: String, after: String, shards: Option[Int])
    extends BinaryExpression
    with Nondeterministic {
  @transient private[this] var here = 0

  override def left: Expression = key

  override def right: Expression = shown

  override def nullable: Boolean = false

  override def dataType: DataType = BooleanType

  override def prettyName: String = "in_shard"

  override protected def stringArgs: Iterator[Any] = Iterator(key)

  // Equal to the distribution of rows.
  @transient private lazy val shard: Expression = shards.fold[Expression](Literal(0)) { count =>
    HashPartitioning(Seq(NormalizeFloatingNumbers.normalize(key)), count).partitionIdExpression
  }

  override protected def initializeInternal(partitionIndex: Int): Unit = here = partitionIndex

  override protected def evalInternal(input: InternalRow): Any = {
    if (shard.eval(input) != here && shards.isDefined)
      throw InShard.elsewhere(before, shown.eval(input).asInstanceOf[UTF8String], after)
    true
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode =
    if (shards.isEmpty) ev.copy(code = code"", isNull = FalseLiteral, value = TrueLiteral)
    else {
      val here = ctx.addMutableState(CodeGenerator.JAVA_INT, "shard")
      ctx.addPartitionInitializationStatement(s"$here = partitionIndex;")
      val own = shard.genCode(ctx)
      val text = shown.genCode(ctx)
      val parts = Seq(before, after).map(ctx.addReferenceObj("says", _, classOf[String].getName))
      ev.copy(
        code = code"""
          ${own.code}
          if (${own.value} != $here) {
            ${text.code}
            throw ${classOf[
            InShard
          ].getName}.elsewhere(${parts.head}, ${text.isNull} ? null : ${text.value}, ${parts.last});
          }""",
        isNull = FalseLiteral,
        value = TrueLiteral
      )
    }

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): InShard =
    copy(key = newLeft, shown = newRight)
}

object InShard {
  def column(key: Column, shown: Column, before: String, after: String): Column =
    ExpressionUtils.column(
      InShard(ExpressionUtils.expression(key), ExpressionUtils.expression(shown), before, after, None)
    )

  /** An expression of a batch's plan, with the number of shards. */
  def forBatch(shards: Int): PartialFunction[Expression, Expression] = { case check: InShard =>
    check.copy(shards = Some(shards))
  }

  /** The error; called by generated code too. */
  def elsewhere(before: String, key: UTF8String, after: String): MullionException =
    MullionException.functionFailed(s"$before${if (key == null) "null" else s"'$key'"}$after")
}
