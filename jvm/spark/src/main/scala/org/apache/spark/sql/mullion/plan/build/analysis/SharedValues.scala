package org.apache.spark.sql.mullion.plan.build.analysis

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.CollapseProject
import org.apache.spark.sql.catalyst.trees.TreePattern.WITH_EXPRESSION

/** Values that an expression uses several times, Spark's `With`: in `nullif(a, b)`, therefore in `count_if`, and in
  * `between`.
  *
  * {{{
  *   count_if(v <> 0 AND 10 / v > 3)    count(With(c = v <> 0 AND 10 / v > 3; if(c = false, null, c)))
  *   inlined and optimized              count(if(v = 0 OR 10 / v <= 3, null, v <> 0 AND 10 / v > 3))
  *   subexpression elimination          x = 10 / v; …                              fails where v is 0
  * }}}
  *
  * Spark therefore computes `c` in a projection below. It inlines cheap values, and values guarded by a condition,
  * where subexpression elimination does not apply.
  */
private[build] object SharedValues {

  /** Inlines a `With`, and those in it. */
  val inline: PartialFunction[Expression, Expression] = { case shared: With => once(shared).transform(inline) }

  private def once(shared: With): Expression = {
    val of = shared.defs.map(d => d.id -> d.child).toMap
    shared.child.transform { case used: CommonExpressionRef if of.contains(used.id) => of(used.id) }
  }

  /** An expression with every `With` inlined. */
  def writtenOut(expression: Expression): Expression = expression.transform(inline)

  /** An expression with only those left that Spark computes in a projection. */
  def simplified(expression: Expression): Expression =
    if (!expression.containsPattern(WITH_EXPRESSION)) expression
    else
      expression match {
        case shared: With if shared.defs.forall(d => CollapseProject.isCheap(d.child)) => simplified(once(shared))
        // Spark simplifies its parts.
        case shared: With                     => shared
        case condition: ConditionalExpression =>
          val always = condition.alwaysEvaluatedInputs.map(simplified)
          writtenOutBut(condition.withNewAlwaysEvaluatedInputs(always), always)
        case lambda: LambdaFunction => writtenOut(lambda)
        case other                  => other.mapChildren(simplified)
      }

  /** The other inputs of a condition may not be evaluated at all. */
  private def writtenOutBut(condition: Expression, always: Seq[Expression]): Expression =
    condition.mapChildren(child => if (always.exists(_ eq child)) child else writtenOut(child))
}
