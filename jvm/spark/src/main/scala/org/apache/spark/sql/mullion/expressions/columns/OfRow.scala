package org.apache.spark.sql.mullion.expressions.columns

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.{Alias, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.classic.DataFrame

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
}
