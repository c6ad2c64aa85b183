package org.apache.spark.sql.mullion.plan

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet, Expression, Unevaluable}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.mullion.state.header.{RecordPlaces, Regrouped}
import org.apache.spark.sql.types.{DataType, NullType, StringType}

import dev.mullion.windows.rules.Drain

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
  *   in order of their names, so that the order in which they are written says nothing
  * @param resultsAt
  *   for each window and each of `columns`, which of the window's own results it is, or -1
  * @param keys
  *   the key columns of all windows, by their names
  * @param columns
  *   the results of all windows
  * @param drain
  *   where the second window takes the place of the first, when it does
  * @param places
  *   where the records of the windows are, if that does not follow from their names: then one window may be alone
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

  /** Each window as if it were alone. */
  def parts: Seq[WindowedAggregate] = windows.map(_.node.copy(child = child))

  override def output: Seq[Attribute] = (name +: keys :+ window :+ pane) ++ columns ++ lateRow

  // Keys are the child's where they have one column for all windows.
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

  /** Windows that show what one of them shows: `now`, which is the last. */
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

  /** On a node: why its window, which is together with others, has an operator of its own. */
  private[mullion] val alone = TreeNodeTag[String]("mullionAlone")
}

/** One of several windows, as an expression: so that Spark finds and renames the attributes in it. The node has no
  * child of its own.
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

/** The windows that a node of ours works on. */
object Windows {
  def unapply(plan: LogicalPlan): Option[Seq[WindowedAggregate]] = plan match {
    case one: WindowedAggregate   => Some(Seq(one))
    case several: WindowsTogether => Some(several.parts)
    case _                        => None
  }

  /** The nodes of windows in a plan. */
  def in(plan: LogicalPlan): Seq[LogicalPlan] = plan.collect { case node if unapply(node).isDefined => node }
}
