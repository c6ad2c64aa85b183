package org.apache.spark.sql.mullion.operator.partial

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{DataType, Decimal, DecimalType}

/** A sum of decimals in Spark's `sum` and `avg` whose buffer has more than 18 digits and whose summand has the same
  * scale. The summand can then be added to the buffer's words, without objects (see [[GroupDecimals]]).
  *
  * @param summand
  *   the summand before Spark casts it to the buffer's type; null adds nothing
  * @param isFirst
  *   whether it is also evaluated if the buffer is null
  */
private[partial] final case class DecimalSum(summand: Expression, isFirst: Boolean)

private[partial] object DecimalSum {

  /** Only matches the expressions of `sum` and `avg`. */
  def of(buffer: Attribute, update: Expression): Option[DecimalSum] = buffer.dataType match {
    case kind: DecimalType => new Forms(buffer, kind).of(update)
    case _                 => None
  }

  private final class Forms(buffer: Attribute, kind: DecimalType) {

    def of(update: Expression): Option[DecimalSum] = (update match {
      case If(IsNull(tested), Held(), Plus(right)) if withoutCast(right).semanticEquals(tested) =>
        Some(DecimalSum(withoutCast(right), isFirst = true))
      case Plus(Coalesce(Seq(value, Literal(zero: Decimal, `kind`)))) if zero.isZero =>
        Some(DecimalSum(withoutCast(value), isFirst = false))
      case Plus(right) if !right.nullable => Some(DecimalSum(withoutCast(right), isFirst = false))
      case _                              => None
    }).filter(sum =>
      isOfScale(sum.summand.dataType) && sum.summand.deterministic && !sum.summand.references.contains(buffer)
    )

    private object Held {
      def unapply(expression: Expression): Boolean = expression match {
        case held: Attribute => held.exprId == buffer.exprId
        case _               => false
      }
    }

    private object Plus {
      def unapply(expression: Expression): Option[Expression] = expression match {
        case sum: DecimalAddNoOverflowCheck if sum.dataType == kind && Held.unapply(sum.left) => Some(sum.right)
        case _                                                                                => None
      }
    }

    /** A cast to more digits of the same scale changes no value, and produces no null. */
    private def withoutCast(expression: Expression): Expression = {
      val value = expression match {
        case cast: Cast if cast.dataType == kind && isOfScale(cast.child.dataType) => cast.child
        case other                                                                 => other
      }
      value match {
        case KnownNotNull(child) => child
        case other               => other
      }
    }

    private def isOfScale(of: DataType) = of match {
      case decimal: DecimalType => decimal.scale == kind.scale && decimal.precision <= kind.precision
      case _                    => false
    }
  }
}
