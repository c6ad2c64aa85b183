package org.apache.spark.sql.mullion.expressions

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate
import org.apache.spark.sql.types._

/** Which aggregates of a pane have not seen all its rows, because they are newer than the pane: a function beside them,
  * whose bits stand for them by their places.
  *
  * {{{
  *                      missing   seen
  *   a pane of before      010     101     the second is new: null
  *   its first new row     010     111     the second is of the rows from here on
  *   a new pane            000     111     all are whole
  * }}}
  *
  * Its value is both, the second as `unseen`: what is missing and has seen no row yet.
  */
case class KnownAggregates() extends DeclarativeAggregate {
  private lazy val missing = AttributeReference("missing", LongType, nullable = false)()
  private lazy val seen = AttributeReference("seen", LongType, nullable = false)()

  override def children: Seq[Expression] = Nil

  override def nullable: Boolean = false

  override def dataType: DataType = KnownAggregates.valueType

  override def prettyName: String = "known_aggregates"

  override lazy val aggBufferAttributes: Seq[AttributeReference] = Seq(missing, seen)

  override lazy val initialValues: Seq[Expression] = Seq(Literal(0L), Literal(0L))

  override lazy val updateExpressions: Seq[Expression] = Seq(missing, Literal(-1L))

  override lazy val mergeExpressions: Seq[Expression] =
    Seq(BitwiseOr(missing.left, missing.right), BitwiseOr(seen.left, seen.right))

  override lazy val evaluateExpression: Expression =
    CreateNamedStruct(
      Seq(Literal("missing"), missing, Literal("unseen"), BitwiseAnd(missing, BitwiseNot(seen)))
    )

  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): Expression = this
}

object KnownAggregates {
  private val valueType =
    new StructType().add("missing", LongType, nullable = false).add("unseen", LongType, nullable = false)

  /** For how many functions there are bits. */
  val Most = 63

  /** True if any of these functions has not seen all rows of a pane.
    *
    * @param known
    *   the value of this function
    */
  def isMissing(known: Expression, functions: Seq[Int]): Expression = hasAny(known, 0, functions)

  /** True if any of these functions is not known at all. */
  def isUnseen(known: Expression, functions: Seq[Int]): Expression = hasAny(known, 1, functions)

  private def hasAny(known: Expression, field: Int, functions: Seq[Int]): Expression = Not(
    EqualTo(BitwiseAnd(GetStructField(known, field), Literal(functions.map(1L << _).foldLeft(0L)(_ | _))), Literal(0L))
  )

  /** Bits of functions, in the order of others.
    *
    * @param places
    *   for each of these, which one it was, if it was there
    * @param ofNew
    *   the bit of one that was not
    */
  def moved(bits: Long, places: Seq[Option[Int]], ofNew: Boolean): Long =
    places.zipWithIndex.foldLeft(0L) { case (all, (place, i)) =>
      if (place.fold(ofNew)(p => (bits >> p & 1L) == 1L)) all | 1L << i else all
    }
}
