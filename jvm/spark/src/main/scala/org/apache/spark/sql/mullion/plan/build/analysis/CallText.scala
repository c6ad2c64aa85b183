package org.apache.spark.sql.mullion.plan.build.analysis

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, DeclarativeAggregate}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.mullion.expressions.functions.{AggregateText, PlainNumbers, TypeDependence}
import org.apache.spark.sql.mullion.plan.Shown
import org.apache.spark.sql.types._

import dev.mullion.windows.rules.NumberedRules

/** Expressions, and entire calls, as stable text. */
private[mullion] object CallText {

  /** With unqualified columns, as SQL over the input. */
  def plain(e: Expression): Expression = e.transform { case column: Attribute => column.withQualifier(Nil) }

  /** As SQL over the input: with unqualified columns, and without generated numbers. */
  def sqlOf(e: Expression): String = numberless(plain(e)).sql

  /** Expressions that SQL cannot express, such as Python UDFs, include the numbers of columns and variables in their
    * text where these are not children: parameters of a renamed function, and lambda variables.
    */
  private def numberless(e: Expression): Expression = e match {
    case named: InheritAnalysisRules =>
      PrettyAttribute(named.makeSQLString(named.parameters.map(sqlOf)), e.dataType)
    case lambdas: HigherOrderFunction => PrettyAttribute(e.mapChildren(numberless).sql, lambdas.dataType)
    case other                        => other.mapChildren(numberless)
  }

  /** The text that identifies the state of a call. */
  private[build] def of(call: AnalysedCall): AggregateText = {
    import call.{aggregate, df, gap, splitColumns, trigger}
    val output = df.queryExecution.analyzed.output
    // A column may be named in another case, which Spark keeps in the expression.
    val nameOf = output.map(a => a.exprId -> a.name).toMap
    def text(e: Expression): String = sqlOf(e.transform {
      case column: Attribute if nameOf.contains(column.exprId) => column.withName(nameOf(column.exprId))
    })
    def named(e: NamedExpression): String = {
      // Casts include the session's time zone if it is not the default; names of results are explicit, never generated.
      s"${text(Shown.unalias(e))} AS ${quoteIfNeeded(e.name)}"
    }
    def dependences(of: Seq[TypeDependence]): Seq[String] = of.map { dependence =>
      val column = dependence.column
      TypeDependence.describe(nameOf.getOrElse(column.exprId, column.name), dependence.asText)
    }.distinct
    val columns = call.aggregateColumns
    val keys =
      aggregate.groupingExpressions.zip(call.keys.names).map { case (key, name) => Alias(Shown.unalias(key), name)() }
    val ids = call.dedupe.toSeq.flatMap(_.named)
    val when = call.closesWhenOfRows.map(Shown.unalias)
    val read = AttributeSet((keys ++ columns ++ gap ++ trigger ++ when ++ splitColumns ++ ids).flatMap(_.references))
    val input = output.filter(read.contains)
    AggregateText(
      StructType(input.map(a => StructField(a.name, a.dataType, a.nullable))),
      keys.map(named),
      columns.map(named),
      gap.map(g => text(g.child)),
      trigger.orElse(when.filterNot(_ => call.options.endsWith.isDefined)).map(text),
      ids.map(text),
      call.functions.map(function => text(PlainNumbers(SharedValues.writtenOut(function)))),
      call.time.named.filterNot(_ => call.rules.isInstanceOf[NumberedRules]).map { time =>
        nameInProgram(time).getOrElse(text(time))
      },
      call.functions.map(f => dependences(typeDependent(f))),
      dependences(
        (trigger ++ splitColumns).flatMap(TypeDependence.onAll).toSeq ++ keys.flatMap(key => converted(key.child))
      ),
      when.filter(_ => call.options.endsWith.isDefined).map(text),
      call.lastValues.map(value => s"${text(value)} ${value.dataType.sql}").distinct
    )
  }

  /** The name that a program has for the event time, where an adapter numbers the times of several windows. It is
    * metadata of the column.
    */
  private def nameInProgram(time: Expression): Option[String] = time match {
    case column: Attribute =>
      Option.when(column.metadata.contains("mullion.time"))(column.metadata.getString("mullion.time"))
    case _ => None
  }

  /** The columns whose types affect the state of a function without showing in its text or its buffers. */
  private def typeDependent(function: AggregateExpression): Seq[TypeDependence] = {
    val inputs = function.aggregateFunction match {
      // Its distinct values are stored.
      case of if function.isDistinct => TypeDependence.onAll(of)
      // Its buffers have the types of its summands.
      case declarative: DeclarativeAggregate => declarative.children.flatMap(converted)
      case own                               => TypeDependence.onAll(own)
    }
    inputs ++ function.filter.toSeq.flatMap(converted)
  }

  /** The columns that an expression converts to another kind of value. */
  private[mullion] def converted(e: Expression): Seq[TypeDependence] = TypeDependence.of(SharedValues.writtenOut(e))
}
