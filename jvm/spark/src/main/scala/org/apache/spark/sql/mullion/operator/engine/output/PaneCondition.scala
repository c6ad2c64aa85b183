package org.apache.spark.sql.mullion.operator.engine.output

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction
import org.apache.spark.sql.mullion.expressions.functions.Distinct

/** A condition over the contents of a pane.
  *
  * @param condition
  *   over `keys` and `results`
  * @param functions
  *   the aggregate functions of the engine
  * @param results
  *   for each function the attribute of its value
  */
private[operator] final class PaneCondition(
    condition: Expression,
    keys: Seq[Attribute],
    functions: Seq[AggregateFunction],
    results: Seq[Attribute]
) {
  private val needed = condition.references
  private val ofFunctions = new FunctionValues(functions, results, needed.contains)

  /** True if the condition is over distinct values, which may be in records. */
  val isOverDistinct: Boolean =
    functions.zip(results).exists { case (of, result) => of.isInstanceOf[Distinct] && needed.contains(result) }

  private lazy val predicate =
    Predicate.create(ofFunctions.over(condition), keys ++ functions.flatMap(_.aggBufferAttributes) ++ results)
  private val keyAndWork = new JoinedRow()
  private val row = new JoinedRow()

  /** True if the condition holds; a null does not.
    *
    * @param work
    *   the accumulator at work
    */
  def apply(key: InternalRow, work: InternalRow): Boolean = {
    ofFunctions.evaluate(work)
    predicate.eval(row(keyAndWork(key, work), ofFunctions.values))
  }
}
