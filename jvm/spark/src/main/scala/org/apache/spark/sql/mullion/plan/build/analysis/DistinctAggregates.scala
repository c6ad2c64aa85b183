package org.apache.spark.sql.mullion.plan.build.analysis

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, AggregateFunction}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.mullion.expressions.functions.Distinct
import org.apache.spark.unsafe.Platform

import dev.mullion.MullionException

/** Aggregates with DISTINCT as functions that store their distinct values; see [[Distinct]]. */
private[build] object DistinctAggregates {

  /** @param texts
    *   the functions as stable texts, which identify their records in state
    * @param input
    *   the rows
    */
  def apply(
      functions: Seq[AggregateExpression],
      texts: Seq[String],
      input: LogicalPlan
  ): Seq[AggregateExpression] =
    functions.zip(idsOf(texts)).map {
      case (e, id) if e.isDistinct =>
        val values = valuesOf(e.aggregateFunction)
        val normalised = values.map(WindowKeys.normalised(_, input))
        e.copy(aggregateFunction = Distinct(normalised, over(e.aggregateFunction, values), id), isDistinct = false)
      case (e, _) => e
    }

  /** The reason why values of a function cannot be compared by their bytes, if any. */
  def whyIncomparable(call: AnalysedCall): Option[MullionException] = {
    val reasons = for (e <- call.functions.iterator if e.isDistinct; value <- valuesOf(e.aggregateFunction)) yield {
      def refused(why: String) =
        MullionException.unsupported(s"${CallText.sqlOf(e)} compares ${CallText.sqlOf(value)}, $why")
      WindowKeys.comparable(value.dataType) match {
        case Some(_) =>
          Some(
            refused(
              s"which is of type ${value.dataType.sql}, whose values Spark cannot compare. Compare a form of it that has an " +
                "order, such as to_json(...) of a VARIANT."
            )
          )
        case None if !UnsafeRowUtils.isBinaryStable(value.dataType) =>
          Some(
            refused(
              s"which has a collation under which different texts are equal (${value.dataType.sql}), and values are compared by " +
                "their bytes. Compare a form of it that is equal byte by byte, such as lower(...)."
            )
          )
        case None => None
      }
    }
    reasons.flatten.nextOption()
  }

  /** The arguments of a function that vary, as Spark distinguishes rows. */
  private def valuesOf(function: AggregateFunction): Seq[Expression] = function.children
    .filterNot(_.foldable)
    .map {
      case order: SortOrder => order.child
      case other            => other
    }
    .foldLeft(Seq.empty[Expression])((all, e) => if (all.exists(_.semanticEquals(e))) all else all :+ e)

  private def over(function: AggregateFunction, values: Seq[Expression]): AggregateFunction = {
    def at(e: Expression) = values.indexWhere(_.semanticEquals(e))
    function
      .mapChildren(_.transformDown { case e if at(e) >= 0 => BoundReference(at(e), e.dataType, nullable = true) })
      .asInstanceOf[AggregateFunction]
  }

  /** A number for each text. Equal texts have consecutive ones. */
  private def idsOf(texts: Seq[String]): Seq[Long] = texts.zipWithIndex.map { case (text, i) =>
    val bytes = text.getBytes(UTF_8)
    XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET.toLong, bytes.length, 0L) + texts.take(i).count(_ == text)
  }
}
