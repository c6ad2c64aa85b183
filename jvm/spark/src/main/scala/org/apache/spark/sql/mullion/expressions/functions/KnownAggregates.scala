package org.apache.spark.sql.mullion.expressions.functions

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate
import org.apache.spark.sql.types._

/** Tracks the aggregates that are newer than their pane and have not seen all its rows: an additional function with one
  * bit per aggregate.
  *
  * {{{
  *                      missing   seen
  *   an older pane         010     101     the second is new: null
  *   its first new row     010     111     the second covers the rows from here on
  *   a new pane            000     111     all are complete
  * }}}
  *
  * Its value has both, the second as `unseen`: missing aggregates that have seen no row yet.
  */
case class KnownAggregates() extends DeclarativeAggregate {
  private lazy val missing = AttributeReference("missing", LongType, nullable = false)()
  private lazy val seenBits = AttributeReference("seen", LongType, nullable = false)()

  override def children: Seq[Expression] = Nil

  override def nullable: Boolean = false

  override def dataType: DataType = KnownAggregates.valueType

  override def prettyName: String = "known_aggregates"

  override lazy val aggBufferAttributes: Seq[AttributeReference] = Seq(missing, seenBits)

  override lazy val initialValues: Seq[Expression] = Seq(Literal(0L), Literal(0L))

  override lazy val updateExpressions: Seq[Expression] = Seq(missing, Literal(-1L))

  override lazy val mergeExpressions: Seq[Expression] =
    Seq(BitwiseOr(missing.left, missing.right), BitwiseOr(seenBits.left, seenBits.right))

  override lazy val evaluateExpression: Expression =
    CreateNamedStruct(
      Seq(Literal("missing"), missing, Literal("unseen"), BitwiseAnd(missing, BitwiseNot(seenBits)))
    )

  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): Expression = this
}

object KnownAggregates {
  private val valueType =
    new StructType().add("missing", LongType, nullable = false).add("unseen", LongType, nullable = false)

  /** The maximum number of functions. */
  val Most = 63

  /** True if any of these functions has not seen all rows of a pane.
    *
    * @param known
    *   the value of this function
    */
  def isMissing(known: Expression, functions: Seq[Int]): Expression = hasAny(known, 0, functions)

  /** True if any of these functions has seen no row. */
  def isUnseen(known: Expression, functions: Seq[Int]): Expression = hasAny(known, 1, functions)

  private def hasAny(known: Expression, field: Int, functions: Seq[Int]): Expression = Not(
    EqualTo(BitwiseAnd(GetStructField(known, field), Literal(functions.map(1L << _).foldLeft(0L)(_ | _))), Literal(0L))
  )

  /** The bits of functions in a new order.
    *
    * @param places
    *   for each function, its previous index, if it existed
    * @param ofNew
    *   the bit of a new function
    */
  def moved(bits: Long, places: Seq[Option[Int]], ofNew: Boolean): Long =
    places.zipWithIndex.foldLeft(0L) { case (all, (place, i)) =>
      if (place.fold(ofNew)(p => (bits >> p & 1L) == 1L)) all | 1L << i else all
    }
}
