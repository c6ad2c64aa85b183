package org.apache.spark.sql.mullion.operator.engine.output

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._

/** The values of aggregate functions, from an accumulator at work. Declarative functions are expressions over the
  * accumulator; imperative ones are evaluated into a row.
  *
  * @param results
  *   for each function the attribute of its value
  * @param needed
  *   the attributes of the values that are used
  */
private[output] final class FunctionValues(
    functions: Seq[AggregateFunction],
    results: Seq[Attribute],
    needed: Attribute => Boolean = _ => true
) {
  private val offsets = functions.scanLeft(0)(_ + _.aggBufferAttributes.length)
  private val imperative: Array[(ImperativeAggregate, Int)] =
    functions
      .zip(offsets)
      .zipWithIndex
      .collect {
        case ((f: ImperativeAggregate, at), i) if needed(results(i)) =>
          (f.withNewMutableAggBufferOffset(at), i)
      }
      .toArray

  /** The values of imperative functions, a column for each function. */
  val values = new SpecificInternalRow(functions.map(_.dataType))

  /** True if a function is imperative. */
  def areImperative: Boolean = imperative.nonEmpty

  /** Evaluates the imperative functions. */
  def evaluate(work: InternalRow): Unit = {
    var i = 0
    while (i < imperative.length) {
      val (function, at) = imperative(i)
      values.update(at, function.eval(work))
      i += 1
    }
  }

  /** An expression over the functions' results, over an accumulator and the values of imperative functions. */
  def over(expression: Expression): Expression = {
    val ofFunction = functions
      .zip(results)
      .collect { case (d: DeclarativeAggregate, result) => result.exprId -> d.evaluateExpression }
      .toMap
    expression.transform { case a: AttributeReference if ofFunction.contains(a.exprId) => ofFunction(a.exprId) }
  }
}
