package org.apache.spark.sql.mullion

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.classic.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.mullion.stateful.ProcessedRows
import org.apache.spark.sql.types.{DataType, StringType}

import dev.mullion.MullionException
import dev.mullion.windows.{AlignedRules, NumberedRules}

/** Puts the results of several `windowed(…).agg(…)` into one DataFrame, with the name of its window in each row.
  *
  * Windows of a stream that have the same rows, clock and state store become one operator, see [[WindowsTogether]].
  * Each other one stays an operator of its own, and the rows are a union.
  */
object TogetherBuilder {

  /** The column with the name of the window. */
  val nameColumn = "window_name"

  /** On a node: why its window, which is together with others, has an operator of its own. */
  private[mullion] val alone = TreeNodeTag[String]("mullionAlone")

  private val nameForm = "[A-Za-z][A-Za-z0-9_]*".r

  def apply(windows: Seq[(String, DataFrame)]): DataFrame = {
    val spark = windows.headOption
      .getOrElse(
        throw MullionException.invalid(
          "There is no window to put together: name at least one, as in together(hourly=windowed(...).agg(...))."
        )
      )
      ._2
      .sparkSession
    checkNames(windows.map(_._1))
    val parts = windows.map { case (name, df) => Part.of(name, df) }
    val columns = Columns.of(parts)
    checkClocks(parts)
    // Not in the order in which they are written, which the numbers of operators in a checkpoint would depend on.
    val groups = grouped(parts.sortBy(_.name))
    val branches = groups.map {
      case Seq(one) => standing(one, columns, isOnlyOne = parts.length == 1)
      case several  => shown(fuse(spark, several, columns), several, columns)
    }
    Dataset.ofRows(spark, if (branches.length == 1) branches.head else Union(branches))
  }

  /** The node that has all of `windows`, whatever they are over: for what it would do. */
  private[mullion] def node(windows: Seq[(String, DataFrame)]): WindowsTogether = {
    val parts = windows.map { case (name, df) => Part.of(name, df) }.sortBy(_.name)
    fuse(windows.head._2.sparkSession, parts, Columns.of(parts))
  }

  /** One window with its name.
    *
    * @param rows
    *   the columns that it needs
    * @param ticks
    *   whether a source of ticks stands beside its rows
    * @param results
    *   what it shows, over the columns of `node`
    */
  private final case class Part(
      name: String,
      node: WindowedAggregate,
      rows: Project,
      ticks: Boolean,
      results: Seq[NamedExpression]
  ) {
    def source: LogicalPlan = rows.child

    def keys: Seq[Attribute] = WindowedBuilder.named(node.keys)

    /** The columns of `results` that are columns of the node, and nothing is computed over. */
    def plain: Seq[(String, Attribute)] = results.collect { case Alias(a: Attribute, name) => name -> a }
  }

  private object Part {
    def of(name: String, df: DataFrame): Part = df.queryExecution.analyzed match {
      case Project(shown, node: WindowedAggregate) =>
        val columns = shown.drop(WindowedBuilder.named(node.keys).length + 2)
        val results = if (node.lateRow.isDefined) columns.init else columns
        node.child match {
          case rows: Project => Part(name, node, rows, ticks = false, results)
          case Union(Seq(rows: Project, ticks), _, _) if isTicks(ticks) => Part(name, node, rows, ticks = true, results)
          case other => throw new IllegalStateException(s"a window over ${other.nodeName}")
        }
      case other =>
        throw MullionException.invalid(
          s"'$name' is no result of windowed(...).agg(...) or .collect(), or something was done to it (its plan ends in " +
            s"${other.nodeName}). Put the windows together first, and work on the result: each row has its window's name."
        )
    }

    private def isTicks(plan: LogicalPlan): Boolean = plan.collectLeaves().exists {
      case relation: StreamingRelationV2 => relation.table == TickTable
      case _                             => false
    }
  }

  /** The columns of the result, in the order in which the windows name them. */
  private final case class Columns(
      keys: Seq[(String, DataType)],
      window: DataType,
      results: Seq[(String, DataType)],
      lateRow: Option[DataType]
  )

  private object Columns {
    def of(parts: Seq[Part]): Columns = {
      val named = Columns(
        same(parts.map(p => p.name -> p.keys.map(k => k.name -> k.dataType))),
        same(parts.map(p => p.name -> Seq("window" -> p.node.window.dataType))).head._2,
        same(parts.map(p => p.name -> p.results.map(r => r.name -> r.dataType))),
        same(parts.map(p => p.name -> p.node.lateRow.map(r => r.name -> r.dataType).toSeq)).headOption.map(_._2)
      )
      val resolver = parts.head.node.conf.resolver
      val names = named.keys.map(_._1) ++ named.results.map(_._1)
      val taken =
        nameColumn +: (if (named.lateRow.isDefined) Seq("window", "pane", "late_row") else Seq("window", "pane"))
      names.find(n => taken.exists(resolver(n, _))).foreach { name =>
        throw MullionException.invalid(
          s"A column is named '$name', as a column that together() adds. Give it another name with .alias('...')."
        )
      }
      names.find(n => names.count(resolver(n, _)) > 1).foreach { name =>
        throw MullionException.invalid(
          s"The column '$name' is a key of one window and a result of another, or its name is written in two ways. Give one of " +
            "them another name with .alias('...')."
        )
      }
      named
    }

    /** Equal names are one column, and so of one type. */
    private def same(columns: Seq[(String, Seq[(String, DataType)])]): Seq[(String, DataType)] = {
      val first = mutable.LinkedHashMap.empty[String, (String, DataType)]
      for ((window, named) <- columns; (column, kind) <- named) {
        val (of, known) = first.getOrElseUpdate(column, window -> kind)
        if (!DataType.equalsIgnoreNullability(known, kind))
          throw MullionException.invalid(
            s"The column '$column' is of type ${known.sql} in '$of' and of type ${kind.sql} in '$window', and it would be one " +
              s"column. ${fix(column)}"
          )
      }
      first.toSeq.map { case (name, (_, kind)) => name -> kind.asNullable }
    }

    private def fix(column: String): String = column match {
      case "window" =>
        "Windows of time and windows of row numbers do not go together: put each kind together for itself."
      case "late_row" => "Late rows come out whole: window the same DataFrame in both, or leave late='emit' out of one."
      case _          => "Cast it in one of them, or give it another name with .alias('...')."
    }
  }

  private def checkNames(names: Seq[String]): Unit = {
    names.find(!nameForm.matches(_)).foreach { name =>
      throw MullionException.invalid(
        s"'$name' is no name for a window: state is kept under it. Use letters of English, digits and underscores, with a " +
          "letter first."
      )
    }
    names.groupBy(_.toLowerCase(java.util.Locale.ROOT)).values.find(_.length > 1).foreach { same =>
      throw MullionException.invalid(
        s"The windows ${same.mkString("'", "', '", "'")} have one name, but for the case of its letters. Name each differently."
      )
    }
  }

  private def checkClocks(parts: Seq[Part]): Unit = {
    val streaming = parts.map(_.node.isStreaming).distinct
    if (streaming.length > 1)
      throw MullionException.invalid(
        "Some of the windows are over a stream and some over a batch DataFrame. Window the same DataFrame in all of them."
      )
    val onStreamClock = parts.filter { part =>
      part.node.isStreaming && !part.node.rules.onProcessingTime && !part.node.rules.isInstanceOf[NumberedRules] &&
      part.node.rows.forall(_.delayByKey.isEmpty)
    }
    if (onStreamClock.map(_.node.idleAfter).distinct.length > 1) {
      val named = onStreamClock.filter(_.node.idleAfter.isDefined).map(_.name)
      throw MullionException.invalid(
        s"idle_after moves the event clock of the whole query, and the windows differ in it (${named.mkString(", ")}). Give it " +
          "to all windows on event time, and the same, or to none."
      )
    }
  }

  /** The windows that become one operator, in order of their names. */
  private def grouped(parts: Seq[Part]): Seq[Seq[Part]] = {
    val groups = mutable.ArrayBuffer.empty[mutable.ArrayBuffer[Part]]
    parts.foreach { part =>
      groups.find(group => canFuse(group.head, part)) match {
        case Some(group) => group += part
        case None        => groups += mutable.ArrayBuffer(part)
      }
    }
    groups.map(_.toSeq).toSeq
  }

  private def canFuse(a: Part, b: Part): Boolean =
    Seq(a, b).forall(whyAlone(_).isEmpty) && a.node.state == b.node.state &&
      a.node.rules.onProcessingTime == b.node.rules.onProcessingTime && sameRows(a.source, b.source)

  /** Why a window cannot share an operator, if it cannot. */
  private def whyAlone(part: Part): Option[String] = part.node.rules match {
    case _ if !part.node.isStreaming               => Some("its rows are a batch")
    case _ if part.node.rows.isDefined             => Some("its rows are taken in order of arrival")
    case _ if ProcessedRows.areIn(part.node.child) => Some("a stage before it has distributed its rows")
    case rules: AlignedRules if rules.window.overlaps && !rules.sharesSlices =>
      Some("its firings take away what they show")
    case _ => None
  }

  private def sameRows(a: LogicalPlan, b: LogicalPlan): Boolean =
    (a eq b) || (a.output.map(_.name) == b.output.map(_.name) && unnumbered(a) == unnumbered(b))

  /** A plan but for the numbers that each use of withWatermark gets. */
  private def unnumbered(plan: LogicalPlan): LogicalPlan =
    plan.transform { case watermark: EventTimeWatermark => watermark.copy(nodeId = new UUID(0, 0)) }.canonicalized

  /** The windows as one node, over all that they need of their rows. */
  private def fuse(spark: SparkSession, parts: Seq[Part], columns: Columns): WindowsTogether = {
    val source = parts.head.source
    val needed = new Needed
    val time = parts.head.node.time
    val nodes = parts.map { part =>
      val moved = part.source.output.map(_.exprId).zip(source.output).toMap
      val renamed = part.rows.projectList.map { column =>
        val over = column.transform { case a: Attribute if moved.contains(a.exprId) => moved(a.exprId) }
        column.exprId -> needed.add(over.asInstanceOf[NamedExpression])
      }.toMap
      // On processing time the operator adds the time, once for all.
      val stamped = if (renamed.contains(part.node.time.exprId)) renamed else renamed + (part.node.time.exprId -> time)
      part.node.mapExpressions(_.transform { case a: Attribute if stamped.contains(a.exprId) => stamped(a.exprId) })
    }
    val rows = Project(needed.columns, source)
    val child = if (parts.exists(_.ticks)) Tick.beside(spark, rows) else rows
    val first = parts.head.node
    val shared = columns.results.flatMap { case (name, kind) =>
      Option.when(parts.exists(_.plain.exists(_._1 == name)))(name -> kind)
    }
    // What something is computed over stays each window's own.
    val own = parts.flatMap { part =>
      val plain = AttributeSet(part.plain.map(_._2))
      part.node.resultColumns.filterNot(plain.contains).map(column => part -> column)
    }
    val resultsAt = parts.map { part =>
      shared.map { case (name, _) =>
        part.plain.find(_._1 == name).fold(-1)(p => part.node.resultColumns.indexWhere(_.exprId == p._2.exprId))
      } ++ own.map { case (of, column) =>
        if (of eq part) part.node.resultColumns.indexWhere(_.exprId == column.exprId) else -1
      }
    }
    WindowsTogether(
      parts.zip(nodes).map { case (part, node) =>
        OneWindow.of(part.name, node.copy(child = child).overNullable)
      },
      resultsAt,
      AttributeReference(nameColumn, StringType, nullable = false)(),
      columns.keys.map { case (name, kind) => AttributeReference(name, kind)() },
      AttributeReference("window", first.window.dataType, nullable = true, first.window.metadata)(),
      AttributeReference("pane", first.pane.dataType, nullable = false)(),
      shared.map { case (name, kind) => AttributeReference(name, kind)() } ++
        own.map { case (part, column) => AttributeReference(s"${part.name}.${column.name}", column.dataType)() },
      columns.lateRow.filter(_ => parts.exists(_.node.lateRow.isDefined)).map(AttributeReference("late_row", _)()),
      child
    )
  }

  /** The columns that windows need of their rows; equal ones of one name once. */
  private final class Needed {
    private val known = mutable.ArrayBuffer.empty[NamedExpression]

    def columns: Seq[NamedExpression] = known.toSeq

    def add(column: NamedExpression): Attribute =
      known.find(isSame(_, column)).getOrElse { known += column; column }.toAttribute

    private def isSame(a: NamedExpression, b: NamedExpression): Boolean = (a, b) match {
      case (one: Alias, other: Alias) =>
        one.exprId == other.exprId ||
        (one.name == other.name && one.child.deterministic && one.child.semanticEquals(other.child))
      case _ => a.exprId == b.exprId
    }
  }

  /** The result's columns over several windows in one node. */
  private def shown(node: WindowsTogether, parts: Seq[Part], columns: Columns): LogicalPlan = {
    val columnNamed = node.columns.map(c => c.name -> c).toMap
    val results = columns.results.map { case (name, kind) =>
      val shared = Option.when(parts.exists(_.plain.exists(_._1 == name)))(columnNamed(name): Expression)
      val computed = parts.flatMap { part =>
        part.results.find(r => r.name == name && !part.plain.exists(_._1 == name)).map { result =>
          val over = unalias(result).transform {
            case a: Attribute if part.node.resultColumns.exists(_.exprId == a.exprId) =>
              columnNamed(s"${part.name}.${part.node.resultColumns.find(_.exprId == a.exprId).get.name}")
            case a: Attribute if a.exprId == part.node.pane.exprId           => node.pane
            case a: Attribute if part.node.keys.exists(_.exprId == a.exprId) => node.keys.find(_.name == a.name).get
          }
          If(EqualTo(node.name, Literal(part.name)), over, Literal(None.orNull, over.dataType)): Expression
        }
      }
      val all = shared.toSeq ++ computed
      val value = if (all.isEmpty) Literal(None.orNull, kind) else if (all.length == 1) all.head else Coalesce(all)
      Alias(value, name)()
    }
    val keys = columns.keys.map { case (name, _) =>
      val key = node.keys.find(_.name == name).get
      Alias(key, name)()
    }
    val late = columns.lateRow.map(kind => Alias(node.lateRow.getOrElse(Literal(None.orNull, kind)), "late_row")())
    val named = Alias(node.name, nameColumn)() +: keys
    Project((named ++ Seq(Alias(node.window, "window")(), Alias(node.pane, "pane")())) ++ results ++ late, node)
  }

  /** The result's columns over one window in its own node. */
  private def standing(part: Part, columns: Columns, isOnlyOne: Boolean): LogicalPlan = {
    def none(kind: DataType): Expression = Literal(None.orNull, kind)
    val keys = columns.keys.map { case (name, kind) =>
      Alias(part.keys.find(_.name == name).getOrElse(none(kind)), name)()
    }
    val results = columns.results.map { case (name, kind) =>
      Alias(part.results.find(_.name == name).fold(none(kind))(unalias), name)()
    }
    val late = columns.lateRow.map(kind => Alias(part.node.lateRow.getOrElse(none(kind)), "late_row")())
    val named = Alias(Literal(part.name), nameColumn)() +: keys
    val pane = Seq(Alias(part.node.window, "window")(), Alias(part.node.pane, "pane")())
    val node = part.node.copy()
    if (!isOnlyOne) {
      val why = whyAlone(part).getOrElse("no other has its rows, its clock and its state store")
      node.setTagValue(alone, s"apart from other windows: $why")
    }
    Project((named ++ pane) ++ results ++ late, node)
  }

  private def unalias(e: Expression): Expression = e match {
    case Alias(child, _) => child
    case other           => other
  }
}
