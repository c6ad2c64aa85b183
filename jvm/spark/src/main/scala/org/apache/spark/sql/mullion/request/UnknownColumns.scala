package org.apache.spark.sql.mullion.request

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.analysis.UnresolvedAlias
import org.apache.spark.sql.classic.{ColumnNodeToExpressionConverter, DataFrame}
import org.apache.spark.sql.mullion.plan.Shown
import org.apache.spark.sql.{AnalysisException, Column}

import dev.mullion.MullionException
import dev.mullion.windows.spec.Setting

/** Reports a column that the rows of a call do not have, with its place in the call and a suggestion. */
object UnknownColumns {

  /** @param columns
    *   of the call, each with its parameter
    */
  def named[A](df: DataFrame, columns: Seq[(String, Column)])(made: => A): A =
    try made
    catch {
      case theirs: AnalysisException if isUnknown(theirs) =>
        // An aggregate cannot be analysed alone, because it is not a column of the rows.
        val unknown = columns.iterator.filterNot(_._1 == aggregates).flatMap { case (parameter, column) =>
          unknownIn(df, column).map(refusal(df, place(parameter, column), _))
        }
        throw unknown.nextOption().getOrElse(refusal(df, Setting("agg(...)", "agg(...)", aggregates).toString, theirs))
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
    val unresolvedName = Seq("objectName", "fieldName").flatMap(name => Option(parameters.get(name))).headOption
    val name = unresolvedName.getOrElse("").replace("`", "")
    val names = df.columns.toSeq
    val hint =
      if (names.contains(name)) s" A dot in a name means a field, unless the name is quoted: '`$name`'."
      else CloseName(name, names).fold("")(close => s" Did you mean '$close'?")
    MullionException.unknownColumn(
      s"$place: the input has no column '$name'.$hint It has ${names.mkString("'", "', '", "'")}."
    )
  }

  /** The place of a column in the call, in the author's syntax. */
  private def place(parameter: String, column: Column): String = {
    val named = Shown.unalias(ColumnNodeToExpressionConverter(column.node)) match {
      case UnresolvedAlias(child, _) => child
      case other                     => other
    }
    Setting.text(parameter, named.sql.replace("`", "")).toString
  }
}
