package org.apache.spark.sql.mullion.builders

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.mullion.expressions.AggregateText
import org.apache.spark.sql.mullion.plan.Shown
import org.apache.spark.sql.types._

/** Expressions, and whole calls, as text that says the same each time. */
private[mullion] object CallText {

  /** With columns by their own names only, as SQL over the input has them. */
  def plain(e: Expression): Expression = e.transform { case column: Attribute => column.withQualifier(Nil) }

  /** As SQL over the input has it: columns by their own names only, and nothing that is numbered anew each time. */
  def sqlOf(e: Expression): String = numberless(plain(e)).sql

  /** Around what has no text in SQL, such as a UDF of Python's, Spark's texts show the numbers of columns and variables
    * where these are no children: the parameters of a function that is another one's name, and variables of lambdas.
    */
  private def numberless(e: Expression): Expression = e match {
    case named: InheritAnalysisRules =>
      PrettyAttribute(named.makeSQLString(named.parameters.map(sqlOf)), e.dataType)
    case lambdas: HigherOrderFunction => PrettyAttribute(e.mapChildren(numberless).sql, lambdas.dataType)
    case other                        => other.mapChildren(numberless)
  }

  /** What tells the state of one call from another's. */
  private[builders] def of(call: AnalysedCall): AggregateText = {
    import call.{aggregate, df, gap, splitColumns, trigger}
    def named(e: NamedExpression): String = {
      // The session's time zone is in casts' texts where it is not the default; names of results are given, never made.
      s"${sqlOf(Shown.unalias(e))} AS ${quoteIfNeeded(e.name)}"
    }
    val columns = call.aggregateColumns
    val keys =
      aggregate.groupingExpressions.zip(call.keys.names).map { case (key, name) => Alias(Shown.unalias(key), name)() }
    val ids = call.dedupe.toSeq.flatMap(_.named)
    val read = AttributeSet((keys ++ columns ++ gap ++ trigger ++ splitColumns ++ ids).flatMap(_.references))
    val input = df.queryExecution.analyzed.output.filter(read.contains)
    AggregateText(
      StructType(input.map(a => StructField(a.name, a.dataType, a.nullable))),
      keys.map(named),
      columns.map(named),
      gap.map(g => sqlOf(g.child)),
      trigger.map(sqlOf),
      ids.map(sqlOf),
      call.functions.map(function => sqlOf(SharedValues.writtenOut(function)))
    )
  }
}
