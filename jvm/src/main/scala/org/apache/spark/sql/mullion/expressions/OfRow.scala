package org.apache.spark.sql.mullion.expressions

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.{Alias, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.classic.DataFrame

/** Columns as expressions over one row of the input. For an aggregate, a window function or explode, Spark puts nodes
  * of its own between, and such a column is none.
  */
object OfRow {

  /** The expressions, or what Spark made of columns that are more than one value of each row. */
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
