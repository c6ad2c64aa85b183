package org.apache.spark.sql.mullion.exec.partial

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.types.{DataType, LongType}

/** Expressions over what cannot be null, as they are then worth being computed. Spark's code for `coalesce`, `least`
  * and `greatest` notes in a field, for each row, whether it has found a value; and its code for a sum hands both
  * numbers to a function that may throw.
  *
  * {{{
  *   coalesce(coalesce(sum, 0) + v, sum)     s = sum + v, and Spark's sum where that is beyond a long
  *   least(min, v)                           min > v ? v : min
  * }}}
  */
private[partial] object WithoutNulls {

  /** @param expression
    *   bound to columns that are not nullable
    */
  def simplified(expression: Expression): Expression = expression.transformUp {
    case Coalesce(first +: _) if !first.nullable                       => first
    case Least(Seq(one, other)) if !one.nullable && !other.nullable    => LesserOf(one, other)
    case Greatest(Seq(one, other)) if !one.nullable && !other.nullable => GreaterOf(one, other)
    case sum: Add if sum.dataType == LongType && !sum.nullable         => SumOf(sum.left, sum.right, sum)
  }
}

/** The sum of two longs that are not null, as it is where it is a long; where it is not, what Spark makes of it.
  *
  * @param ofSpark
  *   the sum of the same two
  */
private[partial] final case class SumOf(left: Expression, right: Expression, ofSpark: Expression)
    extends BinaryExpression {
  override def dataType: DataType = LongType

  override def nullable: Boolean = false

  override def eval(input: InternalRow): Any = ofSpark.eval(input)

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val (one, other) = (left.genCode(ctx), right.genCode(ctx))
    val beyond = ofSpark.withNewChildren(Seq(one, other).map(v => Computed(v.value, LongType))).genCode(ctx)
    ev.copy(
      code = code"""
           |${one.code}
           |${other.code}
           |long ${ev.value} = ${one.value} + ${other.value};
           |if (((${one.value} ^ ${ev.value}) & (${other.value} ^ ${ev.value})) < 0L) {
           |  ${beyond.code}
           |  ${ev.value} = ${beyond.value};
           |}
         """.stripMargin,
      isNull = FalseLiteral
    )
  }

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): SumOf =
    SumOf(newLeft, newRight, ofSpark.withNewChildren(Seq(newLeft, newRight)))
}

/** A value that stands in a variable of the code. */
private[partial] final case class Computed(of: ExprValue, dataType: DataType) extends LeafExpression {
  override def nullable: Boolean = false

  override def eval(input: InternalRow): Any =
    throw new UnsupportedOperationException(s"$of is a variable of generated code")

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = ExprCode.forNonNullValue(of)
}

/** One of two values that are not null: the first one where they are equal, as in Spark's `least` and `greatest`. */
private[partial] sealed abstract class OneOfTwo extends BinaryExpression {
  override def dataType: DataType = left.dataType

  override def nullable: Boolean = false

  private lazy val ordering = TypeUtils.getInterpretedOrdering(dataType)

  protected def isSecond(compared: Int): Boolean

  /** Whether the second is taken, in Java. */
  protected def second(ctx: CodegenContext, left: String, right: String): String

  override def eval(input: InternalRow): Any = {
    val (one, other) = (left.eval(input), right.eval(input))
    if (isSecond(ordering.compare(one, other))) other else one
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val (one, other) = (left.genCode(ctx), right.genCode(ctx))
    val of = CodeGenerator.javaType(dataType)
    ev.copy(
      code = code"""
           |${one.code}
           |${other.code}
           |$of ${ev.value} = ${second(ctx, one.value, other.value)} ? ${other.value} : ${one.value};
         """.stripMargin,
      isNull = FalseLiteral
    )
  }
}

private[partial] final case class LesserOf(left: Expression, right: Expression) extends OneOfTwo {
  override protected def isSecond(compared: Int): Boolean = compared > 0

  override protected def second(ctx: CodegenContext, left: String, right: String): String =
    ctx.genGreater(dataType, left, right)

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): LesserOf =
    copy(left = newLeft, right = newRight)
}

private[partial] final case class GreaterOf(left: Expression, right: Expression) extends OneOfTwo {
  override protected def isSecond(compared: Int): Boolean = compared < 0

  override protected def second(ctx: CodegenContext, left: String, right: String): String =
    ctx.genGreater(dataType, right, left)

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): GreaterOf =
    copy(left = newLeft, right = newRight)
}
