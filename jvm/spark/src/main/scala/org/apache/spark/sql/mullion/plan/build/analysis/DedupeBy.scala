package org.apache.spark.sql.mullion.plan.build.analysis

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Complete}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.mullion.expressions.columns.{BatchNumber, OfRow, RowInBatch}
import org.apache.spark.sql.mullion.expressions.functions.Deduplicated

import dev.mullion.MullionException
import dev.mullion.windows.spec.Setting

/** The columns that deduplicate the rows of a pane, and the aggregates over the remaining rows; see [[Deduplicated]].
  *
  * @param named
  *   the user's columns
  * @param ids
  *   the same, normalised so that equal values are equal
  * @param batch
  *   the number of a row's batch, which with `number` gives the order of arrival
  */
private[build] final case class DedupeBy(named: Seq[Expression], ids: Seq[Alias], batch: Alias, number: Alias) {

  /** The columns added to the rows. */
  def columns: Seq[NamedExpression] = ids :+ batch :+ number

  /** The aggregates as a single function, and the result of each by its id. */
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

private[build] object DedupeBy {

  def apply(df: DataFrame, by: Seq[Column], input: LogicalPlan): Option[DedupeBy] = Option.when(by.nonEmpty) {
    val named = OfRow(df, by: _*).fold(
      plan =>
        throw MullionException.invalid(
          s"${Setting.DedupeBy} has an expression with more than one value for each row: ${plan.simpleString(5)}. Compute it first, as a " +
            "column of the input, and name that column."
        ),
      identity
    )
    named.find(!_.deterministic).foreach { id =>
      throw MullionException.invalid(
        s"${Setting.DedupeBy} has ${CallText.sqlOf(id)}, which differs each time that it is computed. Name columns " +
          "that are the same in all copies of a row."
      )
    }
    val ids = named.zipWithIndex.map { case (id, i) => Alias(WindowKeys.normalised(id, input), s"id$i")() }
    named.find(id => !UnsafeRowUtils.isBinaryStable(id.dataType)).foreach { id =>
      throw MullionException.unsupported(
        s"${Setting.DedupeBy} has ${CallText.sqlOf(id)}, which has a collation under which different texts are equal " +
          s"(${id.dataType.sql}), and rows are compared by their bytes. Name a form of it that is equal byte by byte, such as " +
          "lower(...)."
      )
    }
    val batch = if (df.isStreaming) BatchNumber(None) else Literal(0L)
    DedupeBy(named, ids, Alias(batch, "batch")(), Alias(RowInBatch(), "number")())
  }
}
