package org.apache.spark.sql.mullion.calls

import scala.util.control.NonFatal

import org.apache.spark.sql.{AnalysisException, Column}
import org.apache.spark.sql.catalyst.analysis.UnresolvedAlias
import org.apache.spark.sql.classic.{DataFrame, ExpressionUtils}
import org.apache.spark.sql.mullion.plan.Shown

import dev.mullion.MullionException

/** A column that the rows of a call do not have, as our own error, which says where it is named and what was meant. */
private[calls] object UnknownColumns {

  /** @param columns
    *   of the call, each with the parameter that it was given for
    * @param isSql
    *   whether the call was written in SQL, and not in Python
    */
  def named[A](df: DataFrame, columns: Seq[(String, Column)], isSql: Boolean)(made: => A): A =
    try made
    catch {
      case theirs: AnalysisException if isUnknown(theirs) =>
        // An aggregate is none of the rows' columns, so it cannot be looked at alone.
        val found = columns.iterator.filterNot(_._1 == aggregates).flatMap { case (parameter, column) =>
          unknownIn(df, column).map(refusal(df, place(parameter, column, isSql), _))
        }
        throw found.nextOption().getOrElse(refusal(df, if (isSql) aggregates else "agg(...)", theirs))
    }

  private val aggregates = "aggregates"

  private def unknownIn(df: DataFrame, column: Column): Option[AnalysisException] =
    try { df.select(column); None }
    catch {
      case theirs: AnalysisException if isUnknown(theirs) => Some(theirs)
      case NonFatal(_)                                    => None
    }

  private def isUnknown(theirs: AnalysisException): Boolean =
    Option(theirs.getCondition).exists(of => of.startsWith("UNRESOLVED_COLUMN") || of.startsWith("FIELD_NOT_FOUND"))

  private def refusal(df: DataFrame, place: String, theirs: AnalysisException): MullionException = {
    val parameters = theirs.getMessageParameters
    val wanted = Seq("objectName", "fieldName").flatMap(name => Option(parameters.get(name))).headOption
    val name = wanted.getOrElse("").replace("`", "")
    val names = df.columns.toSeq
    val hint =
      if (names.contains(name)) s" A dot in a name stands for a field, unless the name is quoted: '`$name`'."
      else CloseName(name, names).fold("")(close => s" Did you mean '$close'?")
    MullionException.unknownColumn(
      s"$place: the input has no column '$name'.$hint It has ${names.mkString("'", "', '", "'")}."
    )
  }

  /** Where a column is named, as its author wrote it. */
  private def place(parameter: String, column: Column, isSql: Boolean): String = {
    val named = Shown.unalias(ExpressionUtils.expression(column)) match {
      case UnresolvedAlias(child, _) => child
      case other                     => other
    }
    s"$parameter${if (isSql) " => " else "="}'${named.sql.replace("`", "")}'"
  }
}
