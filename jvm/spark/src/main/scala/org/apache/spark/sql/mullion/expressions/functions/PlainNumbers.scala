package org.apache.spark.sql.mullion.expressions.functions

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{DecimalType, IntegralType}

/** Integers without a type, because it follows from the column that they are compared with or added to.
  *
  * {{{
  *   v > 3    of an INT v       v > 3
  *            of a BIGINT v     v > CAST(3 AS BIGINT)    is v > 3, too
  * }}}
  */
private[mullion] object PlainNumbers {

  /** An expression for texts that are compared. It cannot be evaluated. */
  def apply(e: Expression): Expression = e.transformUp { case operator @ (_: BinaryArithmetic | _: BinaryComparison) =>
    operator.mapChildren(operand => numberOf(operand).getOrElse(operand))
  }

  private def numberOf(e: Expression): Option[Literal] = e match {
    case number @ Literal(_, _: IntegralType) => Some(number)
    case Cast(number, to: IntegralType, _, _) => numberOf(number).filter(to.defaultSize >= _.dataType.defaultSize)
    case Cast(number, _: DecimalType, _, _)   => numberOf(number)
    case _                                    => None
  }
}
