package org.apache.spark.sql.mullion.expressions.functions

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{DataType, IntegralType, NumericType, StringType}

/** A column whose type affects the values of an expression, although the expression has the same text and type.
  *
  * {{{
  *   hash(v), v an INT                 another value than for the same v as a BIGINT
  *   CAST(v AS STRING), v an INT       the same text as for a BIGINT, another one than for a DECIMAL(12,2)
  *   v > 3                             no dependence
  * }}}
  *
  * @param asText
  *   whether it is an integer that is only written as text
  */
private[mullion] final case class TypeDependence(column: Attribute, asText: Boolean)

private[mullion] object TypeDependence {

  /** A dependence as text, for a column of this name. */
  def describe(name: String, asText: Boolean): String = if (asText) s"$name as text" else name

  /** True if a change of a column's type affects values with these dependences, as text. */
  def isAffected(of: Seq[String], column: String, was: DataType, now: DataType): Boolean =
    of.contains(column) || of.contains(describe(column, asText = true)) && !Seq(was, now).forall {
      case _: IntegralType => true
      case _               => false
    }

  /** The dependences on all columns of an expression. */
  def onAll(e: Expression): Seq[TypeDependence] = e.references.toSeq.map(TypeDependence(_, asText = false))

  /** The columns that an expression converts to another kind of value, such as texts or hashes. Arithmetic and
    * comparisons give the same value for numbers of any type. Every `With` is inlined.
    */
  def of(e: Expression): Seq[TypeDependence] = e match {
    case _: Attribute | _: Literal                                                                => Nil
    case Cast(child, _: NumericType, _, _) if child.dataType.isInstanceOf[NumericType]            => of(child)
    case Cast(child: Attribute, _: StringType, _, _) if child.dataType.isInstanceOf[IntegralType] =>
      Seq(TypeDependence(child, asText = true))
    case _: BinaryArithmetic | _: UnaryMinus | _: Abs | _: BinaryComparison | _: Predicate | _: ConditionalExpression |
        _: Coalesce | _: IsNull | _: IsNotNull =>
      e.children.flatMap(of)
    case other => onAll(other)
  }
}
