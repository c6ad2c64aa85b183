package org.apache.spark.sql.mullion.builders

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Complete}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.mullion.expressions.{BatchNumber, Deduplicated, OfRow, RowInBatch}

import dev.mullion.MullionException

/** By what rows count once in a pane, and the aggregates over those that count; see [[Deduplicated]].
  *
  * @param named
  *   what the user named
  * @param ids
  *   the same in the one form that equal values share
  * @param batch
  *   the number of a row's batch, which with `number` says what came first
  */
private[builders] final case class DedupeBy(named: Seq[Expression], ids: Seq[Alias], batch: Alias, number: Alias) {

  /** What is added to the rows. */
  def columns: Seq[NamedExpression] = ids :+ batch :+ number

  /** The aggregates as one, and the value of each by what it was called. */
  def over(functions: Seq[AggregateExpression]): (Seq[AggregateExpression], Map[ExprId, Expression]) = {
    val one = Deduplicated(
      ids.map(_.toAttribute),
      batch.toAttribute,
      number.toAttribute,
      functions.map(_.aggregateFunction),
      functions.map(_.filter.getOrElse(Literal.TrueLiteral))
    )
    val all = AggregateExpression(one, Complete, isDistinct = false)
    val values = functions.zipWithIndex.map { case (function, i) =>
      function.resultAttribute.exprId -> (GetStructField(all.resultAttribute, i): Expression)
    }
    (Seq(all), values.toMap)
  }
}

private[builders] object DedupeBy {

  def apply(df: DataFrame, by: Seq[Column], input: LogicalPlan): Option[DedupeBy] = Option.when(by.nonEmpty) {
    val named = OfRow(df, by: _*).fold(
      plan =>
        throw MullionException.invalid(
          s"dedupe_by names what is more than one value of each row: ${plan.simpleString(5)}. Compute it first, as a column " +
            "of the input, and name that."
        ),
      identity
    )
    named.find(!_.deterministic).foreach { id =>
      throw MullionException.invalid(
        s"dedupe_by names ${CallText.sqlOf(id)}, which is another value each time that it is computed. Name columns " +
          "that are the same in all copies of a row."
      )
    }
    val ids = named.zipWithIndex.map { case (id, i) => Alias(WindowKeys.normalised(id, input), s"id$i")() }
    named.find(id => !UnsafeRowUtils.isBinaryStable(id.dataType)).foreach { id =>
      throw MullionException.unsupported(
        s"dedupe_by names ${CallText.sqlOf(id)}, which has a collation under which different texts are equal " +
          s"(${id.dataType.sql}), and rows are compared by their bytes. Name a form of it that is equal byte by byte, such as " +
          "F.lower(...)."
      )
    }
    val batch = if (df.isStreaming) BatchNumber(None) else Literal(0L)
    DedupeBy(named, ids, Alias(batch, "batch")(), Alias(RowInBatch(), "number")())
  }
}
