package org.apache.spark.sql.mullion.builders

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, DeclarativeAggregate}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.mullion.expressions.AggregateText
import org.apache.spark.sql.mullion.plan.Shown
import org.apache.spark.sql.types._

import dev.mullion.windows.rules.NumberedRules

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
    val output = df.queryExecution.analyzed.output
    // A column may be named in another case than its own, which Spark keeps in the expression.
    val nameOf = output.map(a => a.exprId -> a.name).toMap
    def text(e: Expression): String = sqlOf(e.transform {
      case column: Attribute if nameOf.contains(column.exprId) => column.withName(nameOf(column.exprId))
    })
    def named(e: NamedExpression): String = {
      // The session's time zone is in casts' texts where it is not the default; names of results are given, never made.
      s"${text(Shown.unalias(e))} AS ${quoteIfNeeded(e.name)}"
    }
    def names(of: Iterable[Attribute]): Seq[String] = of.map(a => nameOf.getOrElse(a.exprId, a.name)).toSeq.distinct
    val columns = call.aggregateColumns
    val keys =
      aggregate.groupingExpressions.zip(call.keys.names).map { case (key, name) => Alias(Shown.unalias(key), name)() }
    val ids = call.dedupe.toSeq.flatMap(_.named)
    val read = AttributeSet((keys ++ columns ++ gap ++ trigger ++ splitColumns ++ ids).flatMap(_.references))
    val input = output.filter(read.contains)
    AggregateText(
      StructType(input.map(a => StructField(a.name, a.dataType, a.nullable))),
      keys.map(named),
      columns.map(named),
      gap.map(g => text(g.child)),
      trigger.map(text),
      ids.map(text),
      call.functions.map(function => text(SharedValues.writtenOut(function))),
      call.time.named.filterNot(_ => call.rules.isInstanceOf[NumberedRules]).map(text),
      call.functions.map(f => names(typeDependent(f))),
      names((trigger ++ splitColumns).flatMap(_.references))
    )
  }

  /** The columns whose types change what the state of a function means, though neither its text nor its buffers show
    * it.
    */
  private def typeDependent(function: AggregateExpression): Seq[Attribute] = {
    val inputs = function.aggregateFunction match {
      // Its buffers are columns of the types that it adds up.
      case declarative: DeclarativeAggregate => declarative.children.flatMap(converted)
      case own                               => own.references.toSeq
    }
    inputs ++ function.filter.toSeq.flatMap(converted)
  }

  /** The columns that an expression makes values of another kind of, such as texts or hashes: those of a number change
    * with its type. Arithmetic and comparisons have one value for a number of any type.
    */
  private def converted(e: Expression): Seq[Attribute] = e match {
    case shared: With              => converted(SharedValues.writtenOut(shared))
    case _: Attribute | _: Literal => Nil
    case Cast(child, _: NumericType, _, _) if child.dataType.isInstanceOf[NumericType] => converted(child)
    case _: BinaryArithmetic | _: UnaryMinus | _: Abs | _: BinaryComparison | _: Predicate | _: ConditionalExpression |
        _: Coalesce | _: IsNull | _: IsNotNull =>
      e.children.flatMap(converted)
    case other => other.references.toSeq
  }
}
