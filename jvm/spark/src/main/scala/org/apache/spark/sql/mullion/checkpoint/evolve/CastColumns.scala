package org.apache.spark.sql.mullion.checkpoint.evolve

import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions.{Attribute, BoundReference, Cast, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.mullion.expressions.functions.{ApproxDistinct, Distinct, TypeDependence}
import org.apache.spark.sql.mullion.plan.WindowedAggregate
import org.apache.spark.sql.mullion.plan.build.analysis.CallText
import org.apache.spark.sql.mullion.state.header.StateHeader
import org.apache.spark.sql.types._

/** Casts of columns that became narrower in the source, for functions whose state has the wider type.
  *
  * {{{
  *   the state has   percentile of a BIGINT    values 3, 5000000000
  *   the query has   percentile(v), v INT      so it adds percentile(CAST(v AS BIGINT)), with the same result type
  * }}}
  *
  * A column is cast only if the function has the same result, whatever rows came before the change: its argument is the
  * column itself, the cast keeps each value, and the result has the same type. Otherwise the header rejects the change.
  */
private[checkpoint] object CastColumns {

  /** The window over cast columns, and the casts as text.
    *
    * @param rows
    *   the rows of the window, which does not have a child if it is one of several
    */
  def apply(node: WindowedAggregate, rows: LogicalPlan, was: StateHeader): (WindowedAggregate, Seq[String]) =
    if (node.text.dedupe.nonEmpty || node.rows.exists(_.collect.isDefined) || was.functions.isEmpty) node -> Nil
    else {
      val before = WrittenQuery.inputOf(was).map(field => field.name -> field.dataType).toMap
      node.text.input.foldLeft(node -> Seq.empty[String]) { case ((window, notes), column) =>
        val cast = for {
          to <- before.get(column.name)
          if !DataType.equalsIgnoreNullability(to, column.dataType)
          changed <- ofColumn(window, rows, column, to)
        } yield {
          val words =
            s"the column ${column.name} was of type ${to.sql} and is now of type ${column.dataType.sql}: the functions " +
              "that depend on it cast it back"
          changed -> (notes :+ words)
        }
        cast.getOrElse(window -> notes)
      }
    }

  /** The window with a column cast in each function that depends on its type; none if one of them may not. */
  private def ofColumn(
      node: WindowedAggregate,
      rows: LogicalPlan,
      column: StructField,
      to: DataType
  ): Option[WindowedAggregate] = {
    def isAffected(of: Seq[String]) = TypeDependence.isAffected(of, column.name, to, column.dataType)
    val dependent = node.text.typed.map(isAffected).padTo(node.functions.length, false)
    // Expressions that are computed before have columns, too, with names of their own.
    val inInput = rows.collectFirst { case Project(list, _) => list.filter(_.name == column.name) }.toSeq.flatten
    for {
      attribute <- Some(inInput).collect { case Seq(a: Attribute) => a }
      if !isAffected(node.text.typedByWindow)
      casts = node.functions.lazyZip(node.filters).lazyZip(dependent).toSeq.map { case (function, filter, depends) =>
        if (CallText.converted(filter).exists(_.column.semanticEquals(attribute))) Option.when(!depends)(function)
        else casting(function, attribute, to).orElse(Option.when(!depends)(function))
      }
      if casts.forall(_.isDefined) && casts.flatten != node.functions
    } yield {
      val input = StructType(node.text.input.map(f => if (f.name == column.name) f.copy(dataType = to) else f))
      node.copy(functions = casts.flatten, terms = node.terms.copy(text = node.text.copy(input = input)))
    }
  }

  /** The function with its argument cast to the type of its state, if that keeps its result. */
  private def casting(function: AggregateFunction, column: Attribute, to: DataType): Option[AggregateFunction] = {
    def isColumn(e: Expression) = e.semanticEquals(column)
    def cast(e: Expression) = if (isColumn(e)) Cast(e, to) else e
    val result = function match {
      case _ if !isLossless(column.dataType, to, comparesValues(function)) => None
      case _: Percentile | _: ApproxDistinct                               => Some(function.mapChildren(cast))
      // The result is the other argument.
      case by: MaxBy                                            => Some(by.copy(orderingExpr = cast(by.orderingExpr)))
      case by: MinBy                                            => Some(by.copy(orderingExpr = cast(by.orderingExpr)))
      case distinct: Distinct if isOfNumbers(distinct.function) =>
        val values = distinct.values.map(cast)
        val over = distinct.function.transform { case BoundReference(i, _, nullable) =>
          BoundReference(i, values(i).dataType, nullable)
        }
        Some(distinct.copy(values = values, function = over.asInstanceOf[AggregateFunction]))
      case _ => None
    }
    result.collect {
      case of: AggregateFunction if of.dataType == function.dataType && isCastEverywhere(of, column) => of
    }
  }

  /** True if all arguments with a column are casts of it. */
  private def isCastEverywhere(function: AggregateFunction, column: Attribute) = {
    val arguments = function.children.filter(_.references.contains(column))
    arguments.nonEmpty && arguments.forall {
      case Cast(child, _, _, _) => child.semanticEquals(column)
      case _                    => false
    }
  }

  private def isOfNumbers(function: AggregateFunction) = function match {
    case _: Count | _: Sum | _: Average => true
    case _                              => false
  }

  /** True if equal values must stay equal, and not only their order. */
  private def comparesValues(function: AggregateFunction) = !function.isInstanceOf[Percentile]

  /** True if a cast of numbers keeps each value.
    *
    * @param equal
    *   whether values of both types must be equal: 0.1 as a FLOAT is another number than 0.1 as a DOUBLE
    */
  private def isLossless(from: DataType, to: DataType, equal: Boolean): Boolean = (from, to) match {
    case (_: IntegralType, _: IntegralType)               => from.defaultSize < to.defaultSize
    case (_: IntegralType, wide: DecimalType)             => wide.isWiderThan(from)
    case (narrow: DecimalType, wide: DecimalType)         => wide.isWiderThan(narrow)
    case (ByteType | ShortType, FloatType)                => true
    case (ByteType | ShortType | IntegerType, DoubleType) => true
    case (FloatType, DoubleType)                          => !equal
    case _                                                => false
  }
}
