package org.apache.spark.sql.mullion.expressions.columns

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.{Alias, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.classic.DataFrame

import dev.mullion.MullionException

/** Columns as expressions over one row of the input. Aggregates, window functions and explode are rejected, because
  * Spark adds nodes for them.
  */
object OfRow {

  /** The expressions, or Spark's plan of columns that are no expressions over one row. */
  def apply(df: DataFrame, columns: Column*): Either[LogicalPlan, Seq[Expression]] =
    df.select(columns: _*).queryExecution.analyzed match {
      case Project(found, _) if found.forall(_.references.subsetOf(df.queryExecution.analyzed.outputSet)) =>
        Right(found.map {
          case Alias(of, _) => of
          case attribute    => attribute
        })
      case other => Left(other)
    }

  /** One expression, of which a repeated batch computes the same value. Raises an error for other columns.
    *
    * @param named
    *   the column's place, as the beginning of a sentence: "The gap is", "Global.when(...) has"
    */
  def one(df: DataFrame, column: Column, named: String): Expression = OfRow(df, column) match {
    case Right(Seq(one)) if one.deterministic => one
    case Right(Seq(_))                        =>
      throw MullionException.invalid(
        s"$named $column, which differs each time that it is computed, so a repeated batch would make other windows. Use " +
          "a column of the source, or an expression that always returns the same value."
      )
    case _ =>
      throw MullionException.invalid(
        s"$named $column, which has more than one value for each row: it contains an aggregate, a window function or explode. " +
          "Compute it first, as a column of the input, and name that."
      )
  }
}
