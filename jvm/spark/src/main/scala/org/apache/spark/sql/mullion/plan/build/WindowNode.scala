package org.apache.spark.sql.mullion.plan.build

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Complete}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.mullion.expressions.columns.PaneColumns
import org.apache.spark.sql.mullion.expressions.functions.{ApproxDistinct, KnownAggregates}
import org.apache.spark.sql.mullion.expressions.udf.PythonAggregate
import org.apache.spark.sql.mullion.operator.engine.output.LastClose
import org.apache.spark.sql.mullion.plan.build.analysis.{
  AnalysedCall,
  CallText,
  DistinctAggregates,
  KnownRows,
  Previous,
  SharedValues,
  WindowKeys
}
import org.apache.spark.sql.mullion.plan.{PaneTerms, Shown, WindowedAggregate}
import org.apache.spark.sql.mullion.pyfunction.branch.ProcessedRows
import org.apache.spark.sql.mullion.query.Tick
import org.apache.spark.sql.types._

import dev.mullion.windows.rules.{LatePolicy, NumberedRules}
import dev.mullion.windows.spec.{Language, TimeMath}

/** The node of a valid call, and its output.
  *
  * {{{
  *   Shown: Project    [f(sum(v)) AS more]     expressions over aggregates that only Spark computes
  *     WindowedAggregate [k, sum(v)]
  *       rows: Project   [k, time, g(v)]       expressions within aggregates that only Spark computes
  *         input
  * }}}
  */
private[build] final class WindowNode(call: AnalysedCall) {
  import call.{df, options, rules}

  private val spark = df.sparkSession
  private val isNumbered = rules.isInstanceOf[NumberedRules]
  private val emitsLate = rules.late == LatePolicy.Emit
  // On processing time a stream's rows get their time with their batch.
  private val isStamped = rules.onProcessingTime && df.isStreaming

  private val time = Alias(call.time.expression, "time")()
  private val gap = call.gap.map(Alias(_, "gap")())
  private val ranges = call.ranges.map(Alias(_, "ranges")())
  private val trigger = call.trigger.map(t => Alias(WindowKeys.normalised(t, call.input), "trigger")())
  private val lateColumns = if (emitsLate) df.queryExecution.analyzed.output else Nil

  private val text = CallText.of(call)
  private val (asked, hoisted) = {
    val (functions, columns) = WindowNode.hoist(call.functions)
    (DistinctAggregates(functions, text.functions, call.input).map(ApproxDistinct.replaced), columns)
  }
  private val tracker = Option.when(options.fromNow)(
    AggregateExpression(KnownAggregates(), Complete, isDistinct = false)
  )
  private val (functions, valueOf) =
    call.dedupe.fold((asked ++ tracker, Map.empty[ExprId, Expression]))(_.over(asked))

  private def overFunctions(result: NamedExpression): Expression = {
    val replaced = valueOf ++ call.keys.columnOf
    SharedValues.simplified(Shown.unalias(result)).transform { case a: Attribute => replaced.getOrElse(a.exprId, a) }
  }

  /** The results over the node's keys and functions, by name. */
  private val named: Seq[(String, Expression)] = {
    val values = call.results.map(overFunctions)
    tracker
      .fold(call.results.map(_.name).zip(values))(Incomplete.over(_, functions, call.results.map(_.name).zip(values)))
  }

  private val values: Seq[Expression] = named.map(_._2)

  private val closesWhen = call.closesWhen.map { condition =>
    val columnOf = call.keys.columnOf
    SharedValues.simplified(Shown.unalias(condition)).transform { case a: Attribute =>
      columnOf.getOrElse(a.exprId, a)
    }
  }

  /** The aggregates whose values in the close before are needed, each with its column. */
  private val previous: Seq[(Expression, AttributeReference)] = Previous.columns(values)

  /** True if an expression over aggregates can only be computed by Spark, or needs a value of the close before: then
    * above the node, over the functions' results.
    */
  private val above = previous.nonEmpty || values.exists(_.exists(AnalysedCall.isSparksOwn))

  private val computed: Seq[(String, Expression)] =
    if (above) functions.map(f => f.aggregateFunction.toString -> f.resultAttribute)
    else named

  // A late row has no results.
  private val ownColumns = computed.map { case (name, value) =>
    AttributeReference(name, value.dataType, value.nullable || emitsLate)()
  }
  private val rowCount = call.rowCount.map(count => overFunctions(count) -> AttributeReference("row_count", LongType)())
  private val hidden = previous ++ rowCount
  private val resultColumns = ownColumns ++ hidden.map(_._2)

  /** The columns that the node needs. */
  private def rows: LogicalPlan = {
    val read = AttributeSet(
      asked.flatMap(f => f.aggregateFunction.references ++ f.filter.toSeq.flatMap(_.references)) ++ call.splitColumns
    )
    val needed = call.input.output.filter(a => read.contains(a) || lateColumns.exists(_.exprId == a.exprId))
    val times = if (isStamped) Nil else Seq(time)
    val added = times ++ gap ++ ranges ++ trigger ++ hoisted ++ needed ++ call.dedupe.toSeq.flatMap(_.columns)
    Project(call.keys.columns ++ added, call.input)
  }

  /** The rows, with ticks if batches without rows are needed: panes that close by the wall clock, or fire early without
    * rows, and the end of the input. Between stages, the first stage has the ticks.
    */
  private lazy val (input, isKnown): (LogicalPlan, Option[Attribute]) =
    call.knownKeys.filter(_ => !df.isStreaming) match {
      case Some(keys) =>
        val (all, marker) = KnownRows.added(rows, call.keys.columns.map(_.toAttribute), time.toAttribute, keys)
        (all, Some(marker))
      case None => (if (ticks) Tick.beside(spark, rows) else rows, None)
    }

  private def filterOf(function: AggregateExpression): Expression = {
    val own = function.filter.getOrElse(Literal.TrueLiteral)
    isKnown.fold(own)(marker => if (own == Literal.TrueLiteral) Not(marker) else And(Not(marker), own))
  }

  private def ticks: Boolean = {
    val withoutRows = rules.onProcessingTime || options.idleAfter.isDefined || call.rows.exists(_.timedByWall) ||
      rules.early.isDefined || rules.refinements.atEnd
    df.isStreaming && withoutRows && !ProcessedRows.areIn(call.input)
  }

  private def delay: Long = {
    val ofStreams = call.input.collect { case of: EventTimeWatermark =>
      TimeMath.fromMillis(EventTimeWatermark.getDelayMs(of.delay))
    }
    (ofStreams :+ call.time.delay).max
  }

  private def window: Attribute = {
    // Without the stream's clock there is no watermark.
    val metadata =
      if (isNumbered || options.perKey) Metadata.empty
      else new MetadataBuilder().withMetadata(call.time.watermark).putBoolean(TimeWindow.marker, true).build()
    val kind = if (isNumbered) PaneColumns.numbersType else PaneColumns.windowType
    AttributeReference("window", kind, nullable = true, metadata)()
  }

  private def lateRow: Option[Attribute] = Option.when(emitsLate)(
    AttributeReference("late_row", StructType(lateColumns.map(a => StructField(a.name, a.dataType, a.nullable))))()
  )

  private val node = WindowedAggregate(
    keys = call.keys.columns.map(_.toAttribute),
    time = if (isStamped) AttributeReference("time", TimestampType, nullable = false)() else time.toAttribute,
    gap = gap.map(_.toAttribute),
    ranges = ranges.map(_.toAttribute),
    trigger = trigger.map(_.toAttribute),
    closesWhen = closesWhen,
    splitColumns = call.splitColumns,
    functions = functions.map(_.aggregateFunction),
    filters = functions.map(filterOf),
    functionResults = functions.map(_.resultAttribute),
    results = computed.map(_._2) ++ hidden.map(_._1),
    resultColumns = resultColumns,
    window = window,
    pane = AttributeReference("pane", PaneColumns.paneType(rules.refinements.ids), nullable = false)(),
    lateColumns = lateColumns,
    lateRow = lateRow,
    PaneTerms(
      rules,
      options.idleAfter,
      options.maxAhead,
      text,
      options.split,
      call.rows,
      ticks,
      options.drains,
      options.drops,
      delay = delay,
      language = Language.current,
      last = Option.when(hidden.nonEmpty)(LastClose(rowCount.isDefined, previous.length)),
      knownKeys = call.knownKeys
    ),
    input
  ).overNullable

  def shown: Shown = Shown(node, if (above) computedAbove else ownColumns.map(c => Alias(c, c.name)()))

  private def computedAbove: Seq[NamedExpression] = {
    val columnOf = functions.map(_.resultAttribute.exprId).zip(ownColumns).toMap
    def overColumns(of: Expression) = of.transform {
      case a: Attribute if columnOf.contains(a.exprId) => columnOf(a.exprId)
    }
    val ofPython = call.functions.filter(_.aggregateFunction.isInstanceOf[PythonAggregate]).map { function =>
      overColumns(valueOf.getOrElse(function.resultAttribute.exprId, function.resultAttribute))
    }
    named.map { case (name, value) =>
      val over = overColumns(Previous.replaced(value, previous)).transform {
        case udf: PythonUDF if udf.children.exists(child => ofPython.exists(_.semanticEquals(child))) =>
          udf.withNewChildren(udf.children.map(PythonAggregate.withPane(_, node.window, node.keys)))
      }
      val isLate = In(GetStructField(node.pane, 0), Seq(Literal("late"), Literal("ahead")))
      Alias(if (emitsLate) If(isLate, Literal(None.orNull, over.dataType), over) else over, name)()
    }
  }
}

private[build] object WindowNode {

  /** Moves expressions within aggregates that only Spark can compute to columns of the input. */
  private def hoist(expressions: Seq[AggregateExpression]): (Seq[AggregateExpression], Seq[Alias]) = {
    val hoisted = Seq.newBuilder[Alias]
    val rewritten = expressions.map { e =>
      // A column is computed for each row, but a function's arguments only for those that its FILTER lets pass.
      def guarded(value: Expression) = value match {
        case shared: With if e.filter.exists(!_.exists(_.fastEquals(shared))) =>
          If(e.filter.get, shared, Literal(None.orNull, shared.dataType))
        case other => other
      }
      SharedValues
        .simplified(e)
        .transformDown {
          case own if AnalysedCall.isSparksOwn(own) =>
            val alias = Alias(guarded(own), "computed")()
            hoisted += alias
            alias.toAttribute
        }
        .asInstanceOf[AggregateExpression]
    }
    (rewritten, hoisted.result())
  }
}
