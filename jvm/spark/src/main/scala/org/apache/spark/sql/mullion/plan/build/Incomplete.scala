package org.apache.spark.sql.mullion.plan.build

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.mullion.expressions.functions.KnownAggregates
import org.apache.spark.sql.types.{ArrayType, StringType}

import dev.mullion.MullionException
import dev.mullion.windows.spec.Setting

/** Results of aggregates that may be newer than a pane: such a result is null until the pane's first new row, and then
  * covers the rows from that on. A column lists the results that do not cover the entire pane.
  */
private[build] object Incomplete {

  /** The name of that column. */
  val column = "incomplete"

  /** @param known
    *   the function that tracks completeness
    * @param functions
    *   all functions of the node
    * @param results
    *   the output over them, by name
    */
  def over(
      known: AggregateExpression,
      functions: Seq[AggregateExpression],
      results: Seq[(String, Expression)]
  ): Seq[(String, Expression)] = {
    if (functions.length > KnownAggregates.Most)
      throw MullionException.unsupported(
        s"${Setting.NewAggregatesFromNow} supports at most ${KnownAggregates.Most - 1} aggregates, and there are " +
          s"${functions.length - 1}. Leave it out, or compute some in a second query."
      )
    if (results.exists(_._1.equalsIgnoreCase(column)))
      throw MullionException.invalid(
        s"An aggregate is called '$column', the name of the column that ${Setting.NewAggregatesFromNow} adds for aggregates that have " +
          "not seen all rows of a pane. Give it another alias."
      )
    val numberOf = functions.map(_.resultAttribute.exprId).zipWithIndex.toMap
    def used(e: Expression) = e.references.toSeq.flatMap(a => numberOf.get(a.exprId)).distinct
    val value = known.resultAttribute
    val shown = results.map { case (name, e) =>
      val of = used(e)
      name -> (if (of.isEmpty) e else If(KnownAggregates.isUnseen(value, of), Literal(None.orNull, e.dataType), e))
    }
    val missing = results.filter { case (_, e) => used(e).nonEmpty }.map { case (name, e) =>
      val only = Literal.create(Seq(name), ArrayType(StringType, containsNull = false))
      If(KnownAggregates.isMissing(value, used(e)), only, nothing): Expression
    }
    shown :+ (column -> (if (missing.isEmpty) nothing else Concat(missing)))
  }

  private val nothing = Literal.create(Seq.empty[String], ArrayType(StringType, containsNull = false))
}
