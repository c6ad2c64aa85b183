package org.apache.spark.sql.mullion.plan

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Cast, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, SubqueryAlias, View}
import org.apache.spark.sql.mullion.expressions.columns.{KeyColumns, PaneColumns}
import org.apache.spark.sql.types.DataType

/** The output of `windowed(…).agg(…)` over its node: the keys, `window`, `pane`, the results, and `late_row` if late
  * rows are emitted.
  *
  * {{{
  *   Project [k, window, pane, f(sum(v)) AS more, late_row]      f is a Python function, computed by Spark
  *     WindowedAggregate [k, window, pane, sum(v), late_row]
  * }}}
  *
  * Only its id identifies a column of the node: texts may be equal, such as of aggregates that differ in their FILTER,
  * and one column may be shown under several names.
  *
  * @param results
  *   over the columns of `node`
  */
private[mullion] final case class Shown(node: WindowedAggregate, results: Seq[NamedExpression]) {

  /** The user's keys. */
  def keys: Seq[Attribute] = KeyColumns.named(node.keys)

  /** The results without further computation over the node's. */
  def plain: Seq[(NamedExpression, Attribute)] = results.flatMap { result =>
    Shown.unalias(result) match {
      case column: Attribute if node.resultColumns.exists(_.exprId == column.exprId) => Some(result -> column)
      case _                                                                         => None
    }
  }

  // New column ids: Spark distinguishes two uses of one DataFrame by renaming the columns of projections.
  def plan: Project = {
    val leading = (keys :+ node.window :+ node.pane).map(a => Alias(a, a.name)())
    Project(leading ++ results ++ node.lateRow.map(a => Alias(a, a.name)()), node)
  }
}

private[mullion] object Shown {

  /** Matches a plan that is exactly a result. */
  def unapply(plan: LogicalPlan): Option[Shown] = plan match {
    case Project(columns, node: WindowedAggregate) =>
      val shown = Shown(node, Nil)
      val leading = shown.keys :+ node.window :+ node.pane
      val results = columns.slice(leading.length, columns.length - node.lateRow.size)
      val isOurs = columns.length >= leading.length + node.lateRow.size &&
        columns.take(leading.length).zip(leading).forall { case (column, of) => shows(column, of) } &&
        columns.takeRight(node.lateRow.size).zip(node.lateRow).forall { case (column, of) => shows(column, of) }
      Option.when(isOurs)(shown.copy(results = results))
    case _ => None
  }

  /** The result below nodes that pass it on unchanged, such as a view or `SELECT * FROM mullion_windowed(…)`. */
  def passedOn(plan: LogicalPlan): LogicalPlan = plan match {
    case Shown(_)                                                 => plan
    case alias: SubqueryAlias                                     => passedOn(alias.child)
    case view: View                                               => passedOn(view.child)
    case Project(columns, child) if isSame(columns, child.output) => passedOn(child)
    case other                                                    => other
  }

  private def isSame(columns: Seq[NamedExpression], of: Seq[Attribute]): Boolean =
    columns.length == of.length && columns.zip(of).forall { case (column, from) =>
      column.name == from.name && shows(uncast(column), from)
    }

  /** A view casts its columns to their types at its creation. */
  private def uncast(column: NamedExpression): NamedExpression = column match {
    case Alias(cast: Cast, name) if DataType.equalsIgnoreNullability(cast.dataType, cast.child.dataType) =>
      Alias(cast.child, name)()
    case other => other
  }

  /** The columns of a projection over windows that do not depend on the firing: all but `late_row` and, unless panes
    * have ids, `pane`.
    */
  def ofPanes(columns: Seq[NamedExpression], pane: Attribute, lateRow: Option[Attribute]): Seq[NamedExpression] =
    columns.filterNot(column => lateRow.exists(shows(column, _))).flatMap { column =>
      if (!shows(column, pane)) Some(column)
      else PaneColumns.idOf(pane).map(Alias(_, column.name)())
    }

  def unalias(e: Expression): Expression = e match {
    case Alias(child, _) => child
    case other           => other
  }

  private def shows(column: NamedExpression, of: Attribute): Boolean = unalias(column) match {
    case a: Attribute => a.exprId == of.exprId
    case _            => false
  }
}
