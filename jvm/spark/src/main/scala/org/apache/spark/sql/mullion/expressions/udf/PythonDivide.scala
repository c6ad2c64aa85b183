package org.apache.spark.sql.mullion.expressions.udf

import java.math.{BigDecimal, MathContext}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.{BinaryExpression, Expression}
import org.apache.spark.sql.types.{DataType, Decimal, DoubleType}

/** Python's `/` of the parts of an accumulator, which are ints (`BIGINT` or `DECIMAL`) or floats (`DOUBLE`). Ints are
  * divided before they are rounded. A divisor of zero is an error.
  *
  * @param method
  *   the method that would fail
  */
final case class PythonDivide(left: Expression, right: Expression, method: TranslatedMethod)
    extends BinaryExpression
    with CodegenFallback {
  override def dataType: DataType = DoubleType

  override def nullable: Boolean = false

  override def prettyName: String = "python_divide"

  override def eval(input: InternalRow): Any = {
    val (one, other) = (left.eval(input), right.eval(input))
    if (PythonDivide.exact(other).signum == 0) throw method.failed("ZeroDivisionError: division by zero")
    (one, other) match {
      case (a: Double, b: Double) => a / b
      case (a: Double, b)         => a / PythonDivide.exact(b).doubleValue
      case (a, b: Double)         => PythonDivide.exact(a).doubleValue / b
      case (a, b)                 => PythonDivide.ofInts(PythonDivide.exact(a), PythonDivide.exact(b))
    }
  }

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): PythonDivide =
    copy(left = newLeft, right = newRight)
}

private object PythonDivide {

  // A quotient of ints of 30 digits that is no tie of two doubles differs from it before the 80th digit.
  private val Digits = new MathContext(100)

  /** Zero over a negative int is negative zero in Python. */
  private def ofInts(one: BigDecimal, other: BigDecimal): Double =
    if (one.signum == 0) 0.0 * other.signum else one.divide(other, Digits).doubleValue

  private def exact(value: Any): BigDecimal = value match {
    case whole: Long      => BigDecimal.valueOf(whole)
    case decimal: Decimal => decimal.toJavaBigDecimal
    // Only whether it is zero matters.
    case float: Double => if (float == 0.0) BigDecimal.ZERO else BigDecimal.ONE
    case other         => throw new IllegalArgumentException(s"$other is no part of an accumulator")
  }
}
