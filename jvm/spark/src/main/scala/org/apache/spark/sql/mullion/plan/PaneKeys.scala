package org.apache.spark.sql.mullion.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.mullion.expressions.columns.KeyColumns

import dev.mullion.MullionException
import dev.mullion.windows.spec.Setting

/** The columns of a DataFrame of panes that identify a pane together with `pane.id`: its keys and, for several windows
  * in one query, the name of its window. They are found by their origin in the plan, not by name or position.
  */
object PaneKeys {

  /** @throws MullionException
    *   for panes without ids, or without one of their keys; and if firings contain only new rows, because a table of
    *   the last firings would be wrong
    */
  def of(panes: DataFrame): Seq[String] = {
    val plan = panes.queryExecution.analyzed
    val nodes = plan.output.find(_.name == "pane").toSeq.flatMap(sources(plan, _)).collect {
      case Source(node: WindowedAggregate, column) if column.semanticEquals(node.pane) => node
      case Source(node: WindowsTogether, column) if column.semanticEquals(node.pane)   => node
    }
    if (nodes.isEmpty)
      throw MullionException.invalid(
        s"These are no panes: they have the columns ${plan.output.map(_.name).mkString("'", "', '", "'")}, and 'pane' is not " +
          "among them, or has been changed. Pass the result of windowed(...).agg(...), and call flat() when you read the table."
      )
    val windows = nodes.flatMap {
      case several: WindowsTogether => several.parts
      case one: WindowedAggregate   => Seq(one)
      case _                        => Nil
    }
    if (windows.exists(!_.rules.refinements.ids))
      throw MullionException.invalid(
        "These panes have no ids, which identify the rows of a pane in a table: bounds do not, because sessions change and merge, " +
          s"and late rows may reopen panes. Use windowed(..., ${Setting.Ids})."
      )
    if (windows.exists(!_.rules.refinements.accumulate))
      throw MullionException.unsupported(
        s"With ${Setting.NotAccumulating} a firing has only the rows since the previous one, so a table of the last firings would lack " +
          "the rows before. Leave accumulate out."
      )
    val named = plan.output.map(column => column -> sources(plan, column))
    val needed: Seq[Expression => Boolean] = nodes.flatMap {
      case several: WindowsTogether => (several.name +: several.keys).map(key => key.semanticEquals(_: Expression))
      case one: WindowedAggregate   => KeyColumns.named(one.keys).map(key => key.semanticEquals(_: Expression))
      case _                        => Nil
    } ++ Option.when(nodes.length > 1)((of: Expression) => of.foldable)
    val keys = named.filter { case (column, from) =>
      from.exists(source => needed.exists(_(source.column)) && (!source.column.foldable || isName(column)))
    }
    val missing = nodes
      .flatMap {
        case several: WindowsTogether => several.name +: several.keys
        case one: WindowedAggregate   => KeyColumns.named(one.keys)
        case _                        => Nil
      }
      .filterNot(key => keys.exists(_._2.exists(_.column.semanticEquals(key))))
      .map(_.name) ++
      Option.when(nodes.length > 1 && !keys.exists(key => isName(key._1)))(WindowsTogether.nameColumn)
    if (missing.nonEmpty)
      throw MullionException.invalid(
        s"The panes have lost their key ${missing.distinct.mkString("'", "', '", "'")}: panes of different keys may have the " +
          "same id. Keep that column unchanged."
      )
    keys.map(_._1.name)
  }

  private def isName(column: Attribute) = column.name == WindowsTogether.nameColumn

  /** The origin of a column: its expression in a plan. */
  private final case class Source(plan: LogicalPlan, column: Expression)

  private def sources(plan: LogicalPlan, column: Attribute): Seq[Source] = plan match {
    case node: WindowedAggregate => Seq(Source(node, column))
    case node: WindowsTogether   => Seq(Source(node, column))
    case Project(columns, child) =>
      columns.find(_.exprId == column.exprId).toSeq.flatMap {
        case Alias(from: Attribute, _) => sources(child, from)
        case from: Attribute           => sources(child, from)
        case Alias(value, _)           => Seq(Source(plan, value))
        case other                     => Seq(Source(plan, other))
      }
    case union: Union =>
      val at = union.output.indexWhere(_.exprId == column.exprId)
      union.children.flatMap(branch => sources(branch, branch.output(at)))
    case _ if plan.children.length == 1 && plan.children.head.outputSet.contains(column) =>
      sources(plan.children.head, column)
    case _ => Seq(Source(plan, column))
  }
}
