package org.apache.spark.sql.mullion.plan.build.analysis

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{Max, Min}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.Cross
import org.apache.spark.sql.classic.{DataFrame, Dataset}
import org.apache.spark.sql.mullion.operator.program.KnownKeys
import org.apache.spark.sql.types.BooleanType

import dev.mullion.MullionException
import dev.mullion.windows.spec.Setting

/** The keys of a table as rows of a window. */
private[build] object KnownRows {

  /** The keys of a call's table, in the types of the window's keys.
    *
    * @param keys
    *   the window's key columns
    */
  def keys(df: DataFrame, keys: WindowKeys, table: DataFrame): KnownKeys = {
    val plan = table.queryExecution.analyzed
    if (plan.isStreaming)
      throw MullionException.invalid(
        s"${Setting.EmptyFor} was given a stream, and its keys are read when the query starts. Give it a table or a batch DataFrame."
      )
    if (keys.named.isEmpty)
      throw MullionException.invalid(
        s"${Setting.EmptyFor} lists keys, and the window has none. Name them in ${Setting.By}, or use ${Setting.EmitEmpty}."
      )
    val resolver = df.sparkSession.sessionState.conf.resolver
    val columns = keys.named.map { key =>
      val column = plan.output.find(a => resolver(a.name, key.name)).getOrElse {
        throw MullionException.invalid(
          s"${Setting.EmptyFor} has no column '${key.name}', which is a key. It has ${plan.output.map(_.name).mkString(", ")}. Give it the " +
            s"columns of ${Setting.By}, by their names."
        )
      }
      if (!Cast.canUpCast(column.dataType, key.dataType))
        throw MullionException.invalid(
          s"The column '${key.name}' of ${Setting.EmptyFor} is of type ${column.dataType.sql}, and the key is of type " +
            s"${key.dataType.sql}. Convert it, with ${Setting.cast(key.name, key.dataType.sql)}."
        )
      val value = if (column.dataType == key.dataType) column else Cast(column, key.dataType)
      Alias(WindowKeys.normalised(value, plan), key.name)()
    }
    new KnownKeys(Dataset.ofRows(df.sparkSession, Distinct(Project(columns, plan))))
  }

  /** The rows of a batch DataFrame, and for each known key two rows that no aggregate counts: at the times of the first
    * and the last row of all. Windows without rows between them then belong to the key. Returns the column that marks
    * the added rows.
    */
  def added(rows: LogicalPlan, keys: Seq[Attribute], time: Attribute, known: KnownKeys): (LogicalPlan, Attribute) = {
    val (first, last) =
      (Alias(Min(time).toAggregateExpression(), "first")(), Alias(Max(time).toAggregateExpression(), "last")())
    val bounds = Aggregate(Nil, Seq(first, last), rows)
    val named = known.rows.queryExecution.analyzed
    val both = Join(named, bounds, Cross, None, JoinHint.NONE)
    val at = AttributeReference("at", time.dataType)()
    val ends = CreateArray(Seq(first.toAttribute, last.toAttribute))
    val times = Generate(Explode(ends), Nil, outer = false, None, Seq(at), both)
    val valueOf = keys.map(_.exprId).zip(named.output).toMap + (time.exprId -> at)
    val values = rows.output.map(a => Alias(valueOf.getOrElse(a.exprId, Literal(None.orNull, a.dataType)), a.name)())
    val marker = Alias(Literal(false), "is_known")()
    val marked = Project(rows.output :+ marker, rows)
    val union = Union(Seq(marked, Project(values :+ Alias(Literal(true), "is_known")(), times)))
    (Project(union.output, union), AttributeReference("is_known", BooleanType)(exprId = marker.exprId))
  }
}
