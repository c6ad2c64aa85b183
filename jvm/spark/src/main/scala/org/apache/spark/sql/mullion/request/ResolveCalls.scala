package org.apache.spark.sql.mullion.request

import org.json4s.jackson.JsonMethods.{compact, render}
import org.json4s.{JObject, JString, JValue}

import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction
import org.apache.spark.sql.catalyst.expressions.{Alias, Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.UNRESOLVED_HINT
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

/** Replaces a call by its plan. A call is a hint over its rows: the only kind of plan that a client of Spark Connect
  * can send with columns, and without classes of Mullion and protobuf.
  *
  * {{{
  *   UnresolvedHint mullion [json, columns…]      ResolveCalls      Project [k, window, pane, n]
  *     rows                                     ------------>         WindowedAggregate
  *                                                                      rows
  * }}}
  *
  * It runs when Spark resolves hints, before Spark drops unknown ones, and again with the other rules, because SQL
  * functions create calls there.
  */
final case class ResolveCalls(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.containsPattern(UNRESOLVED_HINT)) plan
    else {
      // The definitions of WITH are at the top of the plan, but a call is analysed alone.
      val named = plan.collect { case WithCTE(_, definitions) => definitions }.flatten.map(of => of.id -> of).toMap
      plan.resolveOperatorsUpWithPruning(_.containsPattern(UNRESOLVED_HINT)) {
        case ResolveCalls.Call(json, columns, rows) =>
          AnalysisHelper.allowInvokingTransformsInAnalyzer {
            session.withActive(Calls(session, json, columns, ResolveCalls.spelledOut(rows, named)))
          }
        case Filter(ResolveCalls.Guard(), made) if !made.containsPattern(UNRESOLVED_HINT) => made
      }
    }
}

object ResolveCalls {

  /** The hint's name. */
  val hint = "mullion"

  /** A call of a function of SQL, as a plan.
    *
    * @param request
    *   see [[Calls]]
    */
  def callInSql(request: Seq[(String, JValue)], columns: Seq[Expression], rows: LogicalPlan): LogicalPlan = {
    val json = compact(render(JObject(("language" -> JString("sql")) :: request.toList)))
    UnresolvedHint(hint, Literal(json) +: columns, rows)
  }

  /** A condition over a call that Spark cannot resolve, added by clients in a declarative pipeline, which cannot check
    * the result. A session without this rule drops the hint, and then fails with the function's name.
    */
  private object Guard {
    private val name = "mullion_extension_is_not_in_this_session"

    def unapply(condition: Expression): Boolean = condition match {
      case function: UnresolvedFunction => function.nameParts == Seq(name)
      case _                            => false
    }
  }

  private object Call {
    def unapply(plan: LogicalPlan): Option[(String, Seq[Expression], LogicalPlan)] = plan match {
      case UnresolvedHint(`hint`, parameters, rows) =>
        parameters.toList match {
          case Literal(json: UTF8String, _: StringType) :: columns =>
            Some((json.toString, columns.collect { case column: Expression => column }, rows))
          case _ => None
        }
      case _ => None
    }
  }

  /** Rows with references to WITH replaced by their definitions. */
  private def spelledOut(rows: LogicalPlan, named: Map[Long, CTERelationDef]): LogicalPlan =
    if (named.isEmpty) rows
    else
      rows.transformUp {
        case use: CTERelationRef if named.contains(use.cteId) && use.resolved =>
          val of = spelledOut(named(use.cteId).child, named)
          Project(use.output.zip(of.output).map { case (as, is) => Alias(is, as.name)(exprId = as.exprId) }, of)
      }
}
