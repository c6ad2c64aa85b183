package org.apache.spark.sql.mullion.plan

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet, Expression, Unevaluable}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.mullion.state.header.{RecordPlaces, Regrouped}
import org.apache.spark.sql.types.{DataType, NullType, StringType}

import dev.mullion.windows.rules.Drain
import dev.mullion.windows.spec.Language

/** Several windows over the same rows, in one operator: they share the scan, the shuffle and the partitions of state.
  * One output row per firing of a pane, with the name of its window.
  *
  * {{{
  *   WindowedAggregate hourly ─┐
  *   WindowedAggregate recent ─┼─ rows      ->      WindowsTogether [hourly, recent, visits] ── rows
  *   WindowedAggregate visits ─┘
  * }}}
  *
  * @param windows
  *   in order of their names, so that the order of arguments is irrelevant
  * @param resultsAt
  *   for each window and each of `columns`, the index of the window's own result, or -1
  * @param keys
  *   the key columns of all windows, by name
  * @param columns
  *   the results of all windows
  * @param drain
  *   the replacement of the first window by the second, if any
  * @param places
  *   the places of the windows' records, if they differ from the names: then there may be a single window
  */
case class WindowsTogether(
    windows: Seq[OneWindow],
    resultsAt: Seq[Seq[Int]],
    name: Attribute,
    keys: Seq[Attribute],
    window: Attribute,
    pane: Attribute,
    columns: Seq[Attribute],
    lateRow: Option[Attribute],
    child: LogicalPlan,
    drain: Option[Drain] = None,
    places: Option[RecordPlaces] = None
) extends UnaryNode {

  /** Each window as a node of its own. */
  def parts: Seq[WindowedAggregate] = windows.map(_.node.copy(child = child))

  override def output: Seq[Attribute] = (name +: keys :+ window :+ pane) ++ columns ++ lateRow

  // Keys belong to the child if they have one column for all windows.
  override def producedAttributes: AttributeSet =
    AttributeSet(output) ++ AttributeSet(parts.flatMap(_.producedAttributes)) -- AttributeSet(parts.flatMap(_.keys))

  override def nodeName: String = "WindowedAggregates"

  override def simpleString(maxFields: Int): String =
    if (drain.isDefined) s"$nodeName ${windows.last.node.inWords}, after ${windows.head.node.inWords}"
    else if (Regrouped.isAlone(windows.map(_.name))) s"$nodeName ${windows.head.node.inWords}"
    else windows.map(w => s"${w.name}: ${w.node.inWords}").mkString(s"$nodeName together [", "; ", "]")

  override protected def withNewChildInternal(newChild: LogicalPlan): WindowsTogether = copy(child = newChild)
}

object WindowsTogether {

  /** Windows with the output of one of them: `now`, the last. */
  private[mullion] def showing(
      now: WindowedAggregate,
      windows: Seq[(String, WindowedAggregate)],
      drain: Option[Drain],
      places: Option[RecordPlaces]
  ): WindowsTogether = WindowsTogether(
    windows.map { case (name, node) => OneWindow.of(name, node) },
    Seq.fill(windows.length)(now.resultColumns.indices),
    AttributeReference(nameColumn, StringType, nullable = false)(),
    now.keys,
    now.window,
    now.pane,
    now.resultColumns,
    now.lateRow,
    now.child,
    drain,
    places
  )

  /** The column with the name of the window. */
  val nameColumn = "window_name"

  /** On a node: the reason why its window has its own operator although it shares a query with others. */
  private[mullion] val alone = TreeNodeTag[String]("mullionAlone")
}

/** One of several windows, as an expression, so that Spark finds and renames the attributes in it. The node has no
  * child.
  */
case class OneWindow(name: String, node: WindowedAggregate) extends Expression with Unevaluable {
  override def children: Seq[Expression] = node.expressions

  override def dataType: DataType = NullType

  override def nullable: Boolean = true

  override def toString: String = s"$name: ${node.inWords}"

  override def sql: String = toString

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): OneWindow = {
    val next = newChildren.iterator
    copy(node = node.mapExpressions(_ => next.next()))
  }
}

object OneWindow {
  def of(name: String, node: WindowedAggregate): OneWindow = OneWindow(name, node.copy(child = LocalRelation(Nil)))
}

/** The windows of one of Mullion's nodes. */
object Windows {
  def unapply(plan: LogicalPlan): Option[Seq[WindowedAggregate]] = plan match {
    case one: WindowedAggregate   => Some(Seq(one))
    case several: WindowsTogether => Some(several.parts)
    case _                        => None
  }

  /** The language of the plan's first window, for messages. */
  def languageOf(plan: LogicalPlan): Language =
    plan.collectFirst { case Windows(nodes) => nodes.head.terms.language }.getOrElse(Language.current)

  /** The nodes of windows in a plan. */
  def in(plan: LogicalPlan): Seq[LogicalPlan] = plan.collect { case node if unapply(node).isDefined => node }
}
