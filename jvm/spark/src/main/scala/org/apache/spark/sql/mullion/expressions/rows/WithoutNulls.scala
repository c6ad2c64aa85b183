package org.apache.spark.sql.mullion.expressions.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.types.{DataType, LongType}

/** Simplified expressions over values that cannot be null. Spark's code for `coalesce`, `least` and `greatest` writes a
  * flag to a field for each row, and its code for a sum calls a function that may throw.
  *
  * {{{
  *   coalesce(coalesce(sum, 0) + v, sum)     s = sum + v, and Spark's sum on overflow
  *   least(min, v)                           min > v ? v : min
  * }}}
  */
private[mullion] object WithoutNulls {

  /** @param expression
    *   bound to columns that are not nullable
    */
  def simplified(expression: Expression): Expression = expression.transformUp {
    case Coalesce(first +: _) if !first.nullable                                                        => first
    case two @ (_: Least | _: Greatest) if two.children.length == 2 && !two.children.exists(_.nullable) =>
      OneOfTwo(two.children(0), two.children(1), two)
    case sum: Add if sum.dataType == LongType && !sum.nullable => SumOf(sum.left, sum.right, sum)
  }
}

/** A replacement of a Spark expression over two values that are not null. */
private[mullion] sealed abstract class InPlaceOf extends BinaryExpression {
  def ofSpark: Expression

  override def dataType: DataType = ofSpark.dataType

  override def nullable: Boolean = false

  override def eval(input: InternalRow): Any = ofSpark.eval(input)
}

/** The sum of two longs; on overflow Spark's own. */
private[mullion] final case class SumOf(left: Expression, right: Expression, ofSpark: Expression) extends InPlaceOf {
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

/** A value in a variable of the code. */
private[mullion] final case class Computed(of: ExprValue, dataType: DataType) extends LeafExpression {
  override def nullable: Boolean = false

  override def eval(input: InternalRow): Any =
    throw new UnsupportedOperationException(s"$of is a variable of generated code")

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = ExprCode.forNonNullValue(of)
}

/** The lesser of two values, or the greater: the first one if they are equal, as in Spark's `least` and `greatest`. */
private[mullion] final case class OneOfTwo(left: Expression, right: Expression, ofSpark: Expression) extends InPlaceOf {
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val (one, other) = (left.genCode(ctx), right.genCode(ctx))
    val isOther = ofSpark match {
      case _: Least => ctx.genGreater(dataType, one.value, other.value)
      case _        => ctx.genGreater(dataType, other.value, one.value)
    }
    ev.copy(
      code = code"""
           |${one.code}
           |${other.code}
           |${CodeGenerator.javaType(dataType)} ${ev.value} = $isOther ? ${other.value} : ${one.value};
         """.stripMargin,
      isNull = FalseLiteral
    )
  }

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): OneOfTwo =
    OneOfTwo(newLeft, newRight, ofSpark.withNewChildren(Seq(newLeft, newRight)))
}
