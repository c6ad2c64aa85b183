package org.apache.spark.sql.mullion.plan.build

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.mullion.plan.{OneWindow, OperationName, Shown, WindowedAggregate, WindowsTogether}
import org.apache.spark.sql.mullion.pyfunction.branch.ProcessedRows
import org.apache.spark.sql.mullion.query.Tick
import org.apache.spark.sql.types.{DataType, StringType}

import dev.mullion.MullionException
import dev.mullion.windows.rules.{AlignedRules, NumberedRules}
import dev.mullion.windows.spec.Setting

/** Combines the results of several `windowed(…).agg(…)` in one DataFrame, with the name of its window in each row.
  *
  * Windows of a stream with the same rows and clock become one operator, see [[WindowsTogether]]. Others keep their own
  * operator, and the result is a union.
  */
object TogetherBuilder {

  private val nameForm = "[A-Za-z][A-Za-z0-9_]*".r

  def apply(windows: Seq[(String, DataFrame)]): DataFrame = {
    require(windows.nonEmpty, "no window to put together")
    val spark = windows.head._2.sparkSession
    checkNames(windows.map(_._1))
    // Spark's analysis, and Mullion's, read the settings of the active session.
    spark.withActive {
      val parts = windows.map { case (name, df) => Part.of(name, df) }
      val columns = Columns.of(parts)
      checkClocks(parts)
      // Sorted, because the numbers of operators in a checkpoint must not depend on the order of arguments.
      val groups = grouped(parts.sortBy(_.name))
      val branches = groups.map {
        case Seq(one) => standing(one, columns, isOnlyOne = parts.length == 1)
        case several  => widened(together(spark, several), columns)
      }
      Dataset.ofRows(spark, if (branches.length == 1) branches.head else Union(branches))
    }
  }

  /** `windows` in one node, whatever their inputs: for its program and its output only. */
  private[mullion] def together(windows: Seq[(String, DataFrame)]): Project = {
    val spark = windows.head._2.sparkSession
    spark.withActive(together(spark, windows.map { case (name, df) => Part.of(name, df) }.sortBy(_.name)))
  }

  /** One window with its name.
    *
    * @param rows
    *   the columns that it needs
    * @param ticks
    *   whether its rows include a source of ticks
    */
  private final case class Part(name: String, shown: Shown, rows: Project, ticks: Boolean) {
    def node: WindowedAggregate = shown.node

    def results: Seq[NamedExpression] = shown.results

    def source: LogicalPlan = rows.child

    def keys: Seq[Attribute] = shown.keys

    /** The columns of the node that are results without further computation, by name. */
    val plain: Seq[(String, Attribute)] = shown.plain.map { case (result, column) => result.name -> column }

    def isPlain(result: String): Boolean = plain.exists(_._1 == result)
  }

  private object Part {
    def of(name: String, df: DataFrame): Part = Shown.passedOn(df.queryExecution.analyzed) match {
      case Shown(shown) =>
        shown.node.child match {
          case rows: Project                                               => Part(name, shown, rows, ticks = false)
          case Union(Seq(rows: Project, ticks), _, _) if Tick.isAll(ticks) => Part(name, shown, rows, ticks = true)
          case other => throw new IllegalStateException(s"a window over ${other.nodeName}")
        }
      case other if !other.exists(_.isInstanceOf[WindowedAggregate]) =>
        throw MullionException.invalid(
          s"'$name' is not a result of windowed(...).agg(...) or .collect(). Window its rows first."
        )
      case other =>
        throw MullionException.invalid(
          s"'$name' is not a result of windowed(...).agg(...) or .collect(): another operation follows that (" +
            s"${OperationName(other)}). Call together first, and apply the operation to its result: each row has its window's name."
        )
    }
  }

  /** The columns of the result, in the order of the windows. */
  private final case class Columns(
      keys: Seq[(String, DataType)],
      window: DataType,
      pane: DataType,
      results: Seq[(String, DataType)],
      lateRow: Option[DataType]
  ) {
    def named: Seq[(String, DataType)] =
      (Seq[(String, DataType)](
        WindowsTogether.nameColumn -> StringType
      ) ++ keys :+ ("window" -> window) :+ ("pane" -> pane)) ++
        results ++ lateRow.map("late_row" -> _)
  }

  private object Columns {
    def of(parts: Seq[Part]): Columns = {
      val named = Columns(
        same(parts.map(p => p.name -> p.keys.map(k => k.name -> k.dataType))),
        same(parts.map(p => p.name -> Seq("window" -> p.node.window.dataType))).head._2,
        same(parts.map(p => p.name -> Seq("pane" -> p.node.pane.dataType))).head._2,
        same(parts.map(p => p.name -> p.results.map(r => r.name -> r.dataType))),
        same(parts.map(p => p.name -> p.node.lateRow.map(r => r.name -> r.dataType).toSeq)).headOption.map(_._2)
      )
      val resolver = parts.head.node.conf.resolver
      val names = named.keys.map(_._1) ++ named.results.map(_._1)
      val usedNames =
        WindowsTogether.nameColumn +: (if (named.lateRow.isDefined) Seq("window", "pane", "late_row")
                                       else Seq("window", "pane"))
      names.find(n => usedNames.exists(resolver(n, _))).foreach { name =>
        throw MullionException.invalid(
          s"A column is named '$name', as a column that together() adds. Give it another name with ${Setting.Renamed}."
        )
      }
      names.find(n => names.count(resolver(n, _)) > 1).foreach { name =>
        throw MullionException.invalid(
          s"The column '$name' is a key of one window and a result of another, or its name is written in two ways. Give one of " +
            s"them another name with ${Setting.Renamed}."
        )
      }
      named
    }

    /** Columns with equal names are merged, so they must have one type. */
    private def same(columns: Seq[(String, Seq[(String, DataType)])]): Seq[(String, DataType)] = {
      val first = mutable.LinkedHashMap.empty[String, (String, DataType)]
      for ((window, named) <- columns; (column, kind) <- named) {
        val (of, needed) = first.getOrElseUpdate(column, window -> kind)
        if (!DataType.equalsIgnoreNullability(needed, kind))
          throw MullionException.invalid(
            s"The column '$column' is of type ${needed.sql} in '$of' and of type ${kind.sql} in '$window', and it would be one " +
              s"column. ${fix(column)}"
          )
      }
      first.toSeq.map { case (name, (_, kind)) => name -> kind.asNullable }
    }

    private def fix(column: String): String = column match {
      case "window" =>
        "Windows of time and windows of row numbers cannot share a query. Call together once for each kind."
      case "pane"     => s"Give ${Setting.Ids} to all of them, or to none."
      case "late_row" =>
        s"Late rows have all columns of the input: use the same DataFrame in both windows, or leave ${Setting.late("emit")} out of one."
      case _ => s"Cast it in one of them, or give it another name with ${Setting.Renamed}."
    }
  }

  private def checkNames(names: Seq[String]): Unit = {
    names.find(!nameForm.matches(_)).foreach { name =>
      throw MullionException.invalid(
        s"'$name' is not a valid name for a window, because state is stored under it. Use English letters, digits and underscores, with a " +
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
    checkSame(onStreamClock, Setting.IdleAfter)(_.idleAfter)
    checkSame(onStreamClock, Setting.MaxAhead)(_.maxAhead)
  }

  private def checkSame(onStreamClock: Seq[Part], option: Setting)(of: WindowedAggregate => Option[Long]): Unit =
    if (onStreamClock.map(part => of(part.node)).distinct.length > 1) {
      val named = onStreamClock.filter(part => of(part.node).isDefined).map(_.name)
      throw MullionException.invalid(
        s"$option moves the event clock of the whole query, and the windows differ in it (${named.mkString(", ")}). Give it " +
          "to all windows on event time, and the same, or to none."
      )
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
    Seq(a, b).forall(whyAlone(_).isEmpty) &&
      a.node.rules.onProcessingTime == b.node.rules.onProcessingTime &&
      a.node.rules.refinements.atEnd == b.node.rules.refinements.atEnd && sameRows(a.source, b.source)

  /** The reason why a window cannot share an operator, if any. */
  private def whyAlone(part: Part): Option[String] = part.node.rules match {
    case _ if !part.node.isStreaming               => Some("its rows are a batch")
    case _ if part.node.rows.isDefined             => Some("its rows are processed in order of arrival")
    case _ if ProcessedRows.areIn(part.node.child) => Some("a stage before it has distributed its rows")
    case rules: AlignedRules if rules.keepsApart   => Some("its firings clear the rows that they show")
    case _ if part.node.terms.knownKeys.isDefined  => Some("a table lists its keys")
    case _                                         => None
  }

  private def sameRows(a: LogicalPlan, b: LogicalPlan): Boolean =
    (a eq b) || (a.output.map(_.name) == b.output.map(_.name) && unnumbered(a) == unnumbered(b))

  /** A plan without the id of each use of withWatermark. */
  private def unnumbered(plan: LogicalPlan): LogicalPlan =
    plan.transform { case watermark: EventTimeWatermark => watermark.copy(nodeId = new UUID(0, 0)) }.canonicalized

  /** The windows as one node, over the columns that they need, and its output. */
  private def together(spark: SparkSession, parts: Seq[Part]): Project = {
    val columns = Columns.of(parts)
    val results = new Results(parts, columns)
    shown(fuse(spark, parts, columns, results), parts, columns, results)
  }

  /** The results of several windows as columns of their node. Results without further computation share a column with
    * those of equal names; inputs of a computation belong to one window.
    */
  private final class Results(parts: Seq[Part], columns: Columns) {
    private val shared: Seq[Attribute] = columns.results.collect {
      case (name, kind) if parts.exists(_.isPlain(name)) => AttributeReference(name, kind)()
    }

    private val own: Map[String, Seq[(Attribute, Attribute)]] = parts.map { part =>
      val plain = AttributeSet(part.plain.map(_._2))
      part.name -> part.node.resultColumns.filterNot(plain.contains).map { column =>
        (column: Attribute) -> (AttributeReference(s"${part.name}.${column.name}", column.dataType)(): Attribute)
      }
    }.toMap

    def all: Seq[Attribute] = shared ++ parts.flatMap(part => own(part.name).map(_._2))

    /** The shared column of a name, if any. */
    def sharedBy(name: String): Option[Attribute] = shared.find(_.name == name)

    /** The unshared results of a window, and their columns. */
    def of(part: Part): Seq[(Attribute, Attribute)] =
      part.plain.map { case (name, column) => column -> sharedBy(name).get } ++ own(part.name)

    /** For each column, the index of the window's result, or -1. */
    def places(part: Part): Seq[Int] = all.map { column =>
      of(part).find(_._2.exprId == column.exprId).fold(-1) { case (result, _) =>
        part.node.resultColumns.indexWhere(_.exprId == result.exprId)
      }
    }
  }

  private def fuse(spark: SparkSession, parts: Seq[Part], columns: Columns, results: Results): WindowsTogether = {
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
    WindowsTogether(
      parts.zip(nodes).map { case (part, node) =>
        OneWindow.of(part.name, node.copy(child = child).overNullable)
      },
      parts.map(results.places),
      AttributeReference(WindowsTogether.nameColumn, StringType, nullable = false)(),
      columns.keys.map { case (name, kind) => AttributeReference(name, kind)() },
      AttributeReference("window", first.window.dataType, nullable = true, first.window.metadata)(),
      AttributeReference("pane", first.pane.dataType, nullable = false)(),
      results.all,
      columns.lateRow.map(AttributeReference("late_row", _)()),
      child
    )
  }

  /** The columns that windows need of their rows; equal ones of one name are merged. */
  private final class Needed {
    private val needed = mutable.ArrayBuffer.empty[NamedExpression]

    def columns: Seq[NamedExpression] = needed.toSeq

    def add(column: NamedExpression): Attribute =
      needed.find(isSame(_, column)).getOrElse { needed += column; column }.toAttribute

    private def isSame(a: NamedExpression, b: NamedExpression): Boolean = (a, b) match {
      case (one: Alias, other: Alias) =>
        one.exprId == other.exprId ||
        (one.name == other.name && one.child.deterministic && one.child.semanticEquals(other.child))
      case _ => a.exprId == b.exprId
    }
  }

  /** The columns of several windows in one node. */
  private def shown(node: WindowsTogether, parts: Seq[Part], columns: Columns, of: Results): Project = {
    // Keys of one name are one column, of all windows.
    val keyOf = columns.keys.map(_._1).zip(node.keys).toMap
    val computed = columns.results.map { case (name, kind) =>
      val ofOne = parts.flatMap { part =>
        part.results.find(r => r.name == name && !part.isPlain(name)).map { result =>
          val replacements = of.of(part).map { case (own, column) => own.exprId -> column }.toMap ++
            part.keys.map(key => key.exprId -> keyOf(key.name)) +
            (part.node.pane.exprId -> node.pane) + (part.node.window.exprId -> node.window)
          val over = Shown.unalias(result).transform { case a: Attribute => replacements(a.exprId) }
          If(EqualTo(node.name, Literal(part.name)), over, Literal(None.orNull, over.dataType)): Expression
        }
      }
      val all = of.sharedBy(name).toSeq ++ ofOne
      val value = if (all.length == 1) all.head else Coalesce(all)
      Alias(value, name)()
    }
    val keys = columns.keys.map { case (name, _) => Alias(keyOf(name), name)() }
    val late = node.lateRow.map(Alias(_, "late_row")())
    val named = Alias(node.name, WindowsTogether.nameColumn)() +: keys
    Project((named ++ Seq(Alias(node.window, "window")(), Alias(node.pane, "pane")())) ++ computed ++ late, node)
  }

  /** The columns of a window with its own node. */
  private def standing(part: Part, columns: Columns, isOnlyOne: Boolean): LogicalPlan = {
    val node = part.node.copy()
    if (!isOnlyOne) {
      val why = whyAlone(part).getOrElse("no other has its rows and its clock")
      node.setTagValue(WindowsTogether.alone, s"apart from other windows: $why")
    }
    val own = part.shown.copy(node = node).plan
    widened(Project(Alias(Literal(part.name), WindowsTogether.nameColumn)() +: own.output, own), columns)
  }

  /** With the columns of all windows, in their order: null where a window lacks one. */
  private def widened(plan: Project, columns: Columns): LogicalPlan = {
    val named = columns.named
    if (plan.output.map(_.name) == named.map(_._1)) plan
    else
      Project(
        named.map { case (name, kind) =>
          Alias(plan.output.find(_.name == name).getOrElse(Literal(None.orNull, kind)), name)()
        },
        plan
      )
  }
}
