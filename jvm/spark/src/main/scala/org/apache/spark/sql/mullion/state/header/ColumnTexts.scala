package org.apache.spark.sql.mullion.state.header

import scala.util.{Success, Try}

import org.apache.spark.sql.catalyst.expressions.{Alias, Expression}
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.mullion.expressions.functions.PlainNumbers

/** Compares columns by their SQL. Texts that cannot be parsed are different. */
private[header] object ColumnTexts {

  /** True if two columns are one expression under two names. */
  def isRenamed(was: String, is: String): Boolean = (parsed(was), parsed(is)) match {
    case (Success(Alias(one, _)), Success(Alias(other, _))) => one == other
    case _                                                  => false
  }

  /** True if two columns have equal values: their integers may have other types. */
  def isSameValue(was: String, is: String): Boolean = (parsed(was), parsed(is)) match {
    case (Success(one), Success(other)) => PlainNumbers(one).sql == PlainNumbers(other).sql
    case _                              => was == is
  }

  private def parsed(column: String): Try[Expression] = Try(CatalystSqlParser.parseExpression(column))
}
