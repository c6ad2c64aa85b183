package org.apache.spark.sql.mullion.operator.scan

import org.apache.spark.sql.catalyst.expressions.aggregate.V2Aggregator
import org.apache.spark.sql.catalyst.expressions.objects.{Invoke, InvokeLike, StaticInvoke}
import org.apache.spark.sql.catalyst.expressions.{Expression, PlanExpression, UserDefinedExpression}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.types.ObjectType

/** The expressions with the same value for the same row in every task, which can also be evaluated during planning.
  *
  * An expression is repeatable if Spark's catalyst or Mullion defines it, it is deterministic, and it contains neither
  * user code nor another plan. All others are not, even if they are marked as deterministic: expressions of extensions,
  * of Hive, or of Spark's execution, where subqueries wait for their results.
  */
private[scan] object RepeatableExpressions {

  /** Returns true if all expressions of a node are repeatable. */
  def areAllOf(plan: SparkPlan): Boolean = plan.expressions.forall(isRepeatable)

  def isRepeatable(expression: Expression): Boolean = expression.deterministic && !expression.exists(!isKnown(_))

  private def isKnown(expression: Expression): Boolean =
    definers.contains(packageOf(expression.getClass)) && (expression match {
      case _: PlanExpression[_] | _: UserDefinedExpression | _: V2Aggregator[_, _] => false
      case call: InvokeLike                                                        => isOfSpark(call)
      case _                                                                       => true
    })

  // Built-in functions call static methods of catalyst; a function of a catalog, those of its own class.
  private def isOfSpark(call: InvokeLike): Boolean = call match {
    case static: StaticInvoke => isOfSpark(static.staticObject) && !random.contains(static.functionName)
    case method: Invoke       =>
      method.targetObject.dataType match {
        case instance: ObjectType => isOfSpark(instance.cls)
        case _                    => true
      }
    case _ => false
  }

  private def isOfSpark(owner: Class[_]): Boolean = callable.exists(owner.getName.startsWith)

  private def packageOf(owner: Class[_]): String = owner.getName.take(owner.getName.lastIndexOf('.'))

  // Marked as deterministic by Spark, although it uses a random initialisation vector.
  private val random = Set("aesEncrypt")

  private val catalyst = "org.apache.spark.sql.catalyst"

  private val ours = "org.apache.spark.sql.mullion.expressions"

  private val callable = Seq(s"$catalyst.", "org.apache.spark.unsafe.")

  private val definers = Set(
    s"$catalyst.expressions",
    s"$catalyst.expressions.aggregate",
    s"$catalyst.expressions.csv",
    s"$catalyst.expressions.json",
    s"$catalyst.expressions.objects",
    s"$catalyst.expressions.st",
    s"$catalyst.expressions.url",
    s"$catalyst.expressions.variant",
    s"$catalyst.expressions.xml",
    s"$ours.columns",
    s"$ours.functions",
    s"$ours.rows"
  )
}
