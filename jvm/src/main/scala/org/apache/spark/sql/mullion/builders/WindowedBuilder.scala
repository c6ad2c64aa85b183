package org.apache.spark.sql.mullion.builders

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.{NormalizeFloatingNumbers, ReplaceExpressions}
import org.apache.spark.sql.catalyst.planning.PhysicalAggregation
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.classic.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.mullion.expressions.{
  AccumulatorLimit,
  AggregateText,
  CustomRanges,
  KeyColumns,
  PaneColumns,
  SessionGap,
  SortedMap
}
import org.apache.spark.sql.mullion.plan.{Shown, WindowedAggregate, Windows}
import org.apache.spark.sql.mullion.python.ProcessedRows
import org.apache.spark.sql.mullion.query.Tick
import org.apache.spark.sql.mullion.shim.MapSorting
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.rules.{LatePolicy, NumberedRules}
import dev.mullion.windows.spec.{CustomWindow, TimeMath, WindowSpec}

/** Turns `windowed(df, …).agg(…)` into a plan. Columns are resolved by letting Spark analyse an ordinary
  * `groupBy(…).agg(…)`, so that everything that Spark accepts as an aggregate means here what it means there.
  */
object WindowedBuilder {
  private val reserved = Seq("window", "pane", "late_row")

  def apply(
      df: DataFrame,
      window: WindowSpec,
      by: Seq[Column],
      options: WindowOptions,
      aggregates: Seq[Column]
  ): DataFrame =
    // Spark's analysis, and ours, ask the active session for its settings.
    df.sparkSession.withActive(built(df, window, by, options, aggregates))

  private def built(
      df: DataFrame,
      window: WindowSpec,
      by: Seq[Column],
      options: WindowOptions,
      aggregates: Seq[Column]
  ): DataFrame = {
    val rangesExpression = options.ranges.map(CustomRanges(df, _))
    AccumulatorLimit.of(df.sparkSession.sessionState.conf)
    val rules = options.rules(window match {
      case _: CustomWindow => CustomWindow(options.rangesText.getOrElse(rangesExpression.fold("")(sqlOf)))
      case other           => other
    })
    val isNumbered = rules.isInstanceOf[NumberedRules]
    val timeNamed = options.time.map(eventTime(df, _))
    if (aggregates.isEmpty && options.collect.isEmpty)
      throw MullionException.invalid(
        "There is no aggregate: a pane has no rows to show but its aggregates. Name at least one, such as " +
          "F.count('*').alias('n')."
      )
    val spark = df.sparkSession
    val held = options.collect.fold(aggregates)(c => Seq(RowByRowBuilder.collect(df, window, timeNamed, c)))
    val aggregate = analysedAggregate(df, by, held)
    // Windows of row numbers have no clock, and without a time named others have the wall clock.
    val timeExpression =
      timeNamed.getOrElse(if (isNumbered) Literal(None.orNull, TimestampType) else CurrentTimestamp())
    val triggerExpression = RowByRowBuilder.trigger(df, window, options.trigger)
    val splitColumns = RowByRowBuilder.splitColumns(df, window, options)
    val delay = options.time.filterNot(_ => isNumbered).fold(Metadata.empty)(timeMetadata(df, _))
    def delayUs =
      if (delay.contains(EventTimeWatermark.delayKey)) TimeMath.fromMillis(delay.getLong(EventTimeWatermark.delayKey))
      else 0L
    val oneByOne = RowByRowBuilder(window, options, delayUs)
    DedupeBy.check(window, options)
    val gapExpression = options.gap.map(SessionGap(df, _))
    val (grouping, expressions, allResults) = parts(aggregate)
    val results = allResults.takeRight(aggregateColumns(aggregate).length)
    checkAggregates(expressions)
    checkSubqueries(aggregate.expressions)
    checkSessions(grouping, aggregate.child)
    val names = keyNames(df, by)
    val dedupe = DedupeBy(df, options.dedupeBy, aggregate.child)
    val text = describe(df, aggregate, names, gapExpression, triggerExpression, splitColumns, dedupe)

    // Keys get names of their own, since normalised floats and sorted maps are other values than the input's.
    val keyAliases =
      if (grouping.isEmpty) Seq(Alias(Literal(0), KeyColumns.noKey)())
      else grouping.zip(names).map { case (g, name) => keyAlias(normalised(unalias(g), aggregate.child), name) }
    val keyOf = grouping.map(_.exprId).zip(keyAliases.map(_.toAttribute)).toMap
    checkNames(spark, keyAliases.filter(_ => grouping.nonEmpty).map(_.name), results.map(_.name), rules.late)
    keyAliases.foreach(checkKey)
    if (df.isStreaming) keyAliases.foreach(checkInterval)

    val timeAlias = Alias(timeExpression, "time")()
    // On processing time a stream's rows get theirs with their batch.
    val isStamped = rules.onProcessingTime && df.isStreaming
    val triggerAlias = triggerExpression.map(t => Alias(normalised(t, aggregate.child), "trigger")())
    val gapAlias = gapExpression.map(Alias(_, "gap")())
    val rangesAlias = rangesExpression.map(Alias(_, "ranges")())
    val child = aggregate.child
    val (asked, hoisted) = hoist(expressions)
    val (functions, valueOf) = dedupe.fold((asked, Map.empty[ExprId, Expression]))(_.over(asked))
    val lateColumns = if (rules.late == LatePolicy.Emit) df.queryExecution.analyzed.output else Nil
    val read = AttributeSet(
      asked.flatMap(f => f.aggregateFunction.references ++ f.filter.toSeq.flatMap(_.references)) ++ splitColumns
    )
    val needed = child.output.filter(a => read.contains(a) || lateColumns.exists(_.exprId == a.exprId))
    val times = if (isStamped) Nil else Seq(timeAlias)
    val rows = Project(
      keyAliases ++ times ++ gapAlias ++ rangesAlias ++ triggerAlias ++ hoisted ++ needed ++ dedupe.toSeq.flatMap(
        _.columns
      ),
      child
    )
    // By the wall clock panes close, or fire early while no rows come; and at the end there are no rows.
    val withoutRows = df.isStreaming &&
      (rules.onProcessingTime || options.idleAfter.isDefined || options.keysFollowWall || rules.early.isDefined || rules.refinements.atEnd)
    if (rules.refinements.atEnd && ProcessedRows.areIn(rows))
      throw MullionException.unsupported(
        "at_end='close' is not for windows between functions of Python: these see only the rows of their batch, and not that " +
          "the input has ended. Leave it out, and close the panes in the function, or window the stream that it gives."
      )
    // Between stages, the first of them has the ticks.
    val input = if (withoutRows && !ProcessedRows.areIn(rows)) Tick.beside(spark, rows) else rows

    val replaced = valueOf ++ keyOf
    val values = results.map(unalias(_).transform { case a: Attribute => replaced.getOrElse(a.exprId, a) })
    // What only Spark can compute stands around aggregates above our node, over the functions' own results.
    val above = values.exists(_.exists(isSparksOwn))
    val computed: Seq[(String, Expression)] =
      if (above) functions.map(f => f.aggregateFunction.toString -> f.resultAttribute)
      else results.map(_.name).zip(values)
    // A late row has no results.
    val resultColumns = computed.map { case (name, value) =>
      AttributeReference(name, value.dataType, value.nullable || rules.late == LatePolicy.Emit)()
    }

    // What has no clock of the stream carries no watermark.
    val windowMetadata =
      if (isNumbered || options.perKey) Metadata.empty
      else new MetadataBuilder().withMetadata(delay).putBoolean(TimeWindow.marker, true).build()
    val windowType = if (isNumbered) PaneColumns.numbersType else PaneColumns.windowType
    val node = WindowedAggregate(
      keys = keyAliases.map(_.toAttribute),
      time = if (isStamped) AttributeReference("time", TimestampType, nullable = false)() else timeAlias.toAttribute,
      gap = gapAlias.map(_.toAttribute),
      ranges = rangesAlias.map(_.toAttribute),
      functions = functions.map(_.aggregateFunction),
      filters = functions.map(_.filter.getOrElse(Literal.TrueLiteral)),
      functionResults = functions.map(_.resultAttribute),
      results = computed.map(_._2),
      resultColumns = resultColumns,
      window = AttributeReference("window", windowType, nullable = true, windowMetadata)(),
      pane = AttributeReference("pane", PaneColumns.paneType(rules.refinements.ids), nullable = false)(),
      lateColumns = lateColumns,
      lateRow = Option.when(rules.late == LatePolicy.Emit)(
        AttributeReference("late_row", StructType(lateColumns.map(a => StructField(a.name, a.dataType, a.nullable))))()
      ),
      rules,
      options.state,
      options.idleAfter,
      text,
      triggerAlias.map(_.toAttribute),
      splitColumns,
      options.split,
      oneByOne,
      input
    ).overNullable
    val outputs =
      if (!above) resultColumns.map(c => Alias(c, c.name)())
      else {
        val columnOf = functions.map(_.resultAttribute.exprId).zip(resultColumns).toMap
        results.zip(values).map { case (result, value) =>
          val over = value.transform { case a: Attribute if columnOf.contains(a.exprId) => columnOf(a.exprId) }
          val isLate = EqualTo(GetStructField(node.pane, 0), Literal("late"))
          Alias(
            if (node.lateRow.isEmpty) over else If(isLate, Literal(None.orNull, over.dataType), over),
            result.name
          )()
        }
      }
    Dataset.ofRows(spark, Shown(node, outputs).plan)
  }

  private def analysedAggregate(df: DataFrame, by: Seq[Column], aggregates: Seq[Column]): Aggregate = {
    val grouped = df.groupBy(by: _*).agg(aggregates.head, aggregates.tail: _*)
    grouped.queryExecution.analyzed match {
      case aggregate: Aggregate => aggregate
      case other                =>
        throw MullionException.unsupported(
          s"These aggregates need more than one aggregation (Spark plans a ${other.nodeName} over it): compute what is over " +
            "the aggregates, such as window functions or explode, on the result of windowed(...).agg(...)."
        )
    }
  }

  /** The grouping, the aggregate functions and the output columns over them. What stands for other expressions
    * (`count_if`, `bool_and`, `between` …) is replaced by them, as Spark's optimizer does in its own nodes.
    */
  private def parts(aggregate: Aggregate): (Seq[NamedExpression], Seq[AggregateExpression], Seq[NamedExpression]) =
    ReplaceExpressions(aggregate.copy(child = LocalRelation(aggregate.child.output)))
      .transformExpressions(inline) match {
      case PhysicalAggregation(grouping, expressions, results, _) => (grouping, expressions, results)
      case other => throw new IllegalStateException(s"not an aggregation: ${other.nodeName}")
    }

  /** What an expression uses several times stands there each time. The optimizer would have it computed below the node,
    * where there are no aggregates yet.
    */
  private def inline: PartialFunction[Expression, Expression] = { case With(child, definitions) =>
    val of = definitions.map(d => d.id -> d.child).toMap
    child
      .transform { case used: CommonExpressionRef if of.contains(used.id) => of(used.id) }
      .transform(inline)
  }

  private def aggregateColumns(aggregate: Aggregate): Seq[NamedExpression] =
    if (aggregate.conf.dataFrameRetainGroupColumns)
      aggregate.aggregateExpressions.drop(aggregate.groupingExpressions.length)
    else aggregate.aggregateExpressions

  private def unalias(e: Expression): Expression = e match {
    case Alias(child, _) => child
    case other           => other
  }

  /** The event time as a TIMESTAMP; of a window column, its last microsecond, as Spark's `window_time`. */
  private def eventTime(df: DataFrame, time: Column): Expression = {
    val expression = unalias(timeExpression(df, time))
    expression.find(_.isInstanceOf[Generator]).foreach { generator =>
      throw MullionException.invalid(
        s"The time ${generator.sql} makes several rows of one. Make them first, with df.select(...), and name their time here."
      )
    }
    expression.dataType match {
      case TimestampType => expression
      case s: StructType if s.fieldNames.sameElements(Array("start", "end")) && s("end").dataType == TimestampType =>
        val end = PreciseTimestampConversion(GetStructField(expression, 1), TimestampType, LongType)
        PreciseTimestampConversion(Subtract(end, Literal(1L)), LongType, TimestampType)
      case other =>
        throw MullionException.invalid(
          s"The time column ${expression.sql} is of type ${other.sql}, and event time is a TIMESTAMP. Convert it first: " +
            "F.to_timestamp for text, F.timestamp_millis or F.timestamp_seconds for numbers since the epoch, " +
            ".cast('timestamp') for a TIMESTAMP_NTZ that is in the session's time zone."
        )
    }
  }

  private def timeExpression(df: DataFrame, time: Column): NamedExpression =
    df.select(time).queryExecution.analyzed match {
      case Project(Seq(e), _) => e
      case other              =>
        throw MullionException.invalid(
          s"The time must be one column of the input, and this is ${other.simpleString(5)}."
        )
    }

  /** The watermark that the time column carries, which a stream must have. */
  private def timeMetadata(df: DataFrame, time: Column): Metadata = {
    val column = timeExpression(df, time)
    val key = EventTimeWatermark.delayKey
    if (!df.isStreaming) Metadata.empty
    else if (column.metadata.contains(key)) {
      new MetadataBuilder().putLong(key, column.metadata.getLong(key)).build()
    } else {
      val other = df.queryExecution.analyzed.output.filter(_.metadata.contains(key)).map(_.name)
      val found = if (other.isEmpty) "the stream has no watermark" else s"the watermark is on ${other.mkString(", ")}"
      val fix =
        if (hasPanes(df.queryExecution.analyzed))
          "The input has panes of another window, whose clock goes on in their column window alone: keep that column, and " +
            "say time='window'."
        else if (!unalias(column).isInstanceOf[Attribute])
          // A watermark is on a column, and this is none of the input's.
          "Make it a column first, and say how far out of order rows come: " + {
            val name = timeName(df, column)
            s"df.withColumn('$name', F.expr(${pythonText(plain(unalias(column)).sql)})).withWatermark('$name', " +
              s"'10 minutes') before windowed(..., time='$name')."
          }
        else
          "Say how far out of order rows come, with " +
            s"df.withWatermark('${column.name}', '10 minutes') before windowed(...)."
      throw MullionException.invalid(
        s"The window is on event time ${column.name}, but $found: without one no pane would ever close. $fix"
      )
    }
  }

  /** With columns by their own names only, as SQL over the input has them. */
  private def plain(e: Expression): Expression = e.transform { case column: Attribute => column.withQualifier(Nil) }

  /** What to call a time that is computed: as it is called, if that was said, else what no column is called. */
  private def timeName(df: DataFrame, time: NamedExpression): String = {
    val computed = unalias(time)
    if (time.name != org.apache.spark.sql.catalyst.util.toPrettySQL(computed) && time.name.matches("\\w+")) time.name
    else
      Iterator
        .from(1)
        .map(i => if (i == 1) "event_time" else s"event_time_$i")
        .find(name => !df.columns.exists(df.sparkSession.sessionState.conf.resolver(_, name)))
        .get
  }

  private def pythonText(text: String): String =
    if (!text.exists("\"\\\n".contains(_))) s"\"$text\""
    else
      "\"" + text.flatMap { case '\n' => "\\n"; case c if "\"\\".contains(c) => s"\\$c"; case c => c.toString } + "\""

  /** Whether a plan has windows that close by a watermark. */
  private def hasPanes(plan: LogicalPlan): Boolean = plan.exists {
    case Windows(nodes) => nodes.exists(_.window.metadata.contains(EventTimeWatermark.delayKey))
    case _              => false
  }

  /** A key is a value and no time of its pane: the watermark that its column carried stays with the rows. */
  private def keyAlias(key: Expression, name: String): Alias =
    Alias(key, name)(nonInheritableMetadataKeys = Seq(EventTimeWatermark.delayKey, SessionWindow.marker))

  /** Spark's `session_window` gives each row a session of its own, and aggregates of Spark's merge them. */
  private def checkSessions(grouping: Seq[NamedExpression], input: LogicalPlan): Unit = {
    def isMerged(session: Attribute): Boolean = input.exists {
      case aggregate: Aggregate => aggregate.groupingExpressions.exists(_.references.contains(session))
      case _                    => false
    }
    def isOfRow(session: Attribute): Boolean = !isMerged(session) && input
      .collectFirst {
        case Project(columns, _) if columns.exists(c => c.isInstanceOf[Alias] && c.exprId == session.exprId) =>
          columns.collectFirst { case alias: Alias if alias.exprId == session.exprId => alias.child }
      }
      .flatten
      .exists {
        case of: Attribute => isOfRow(of)
        case _             => true
      }
    grouping.flatMap(_.references).filter(_.metadata.contains(SessionWindow.marker)).find(isOfRow).foreach { key =>
      throw MullionException.unsupported(
        s"The key ${key.name} is a session_window of Spark's, which is each row's own until an aggregate of Spark's merges " +
          "sessions: no two rows would share a pane. Use Session(gap) as the window, with what else is in by=."
      )
    }
  }

  private def checkAggregates(expressions: Seq[AggregateExpression]): Unit = expressions.foreach { e =>
    if (e.isDistinct)
      throw MullionException.unsupported(
        s"${e.sql}: a pane would have to keep every distinct value it has seen. Use F.approx_count_distinct, or " +
          "F.size(F.collect_set(...)) if they are few."
      )
    e.aggregateFunction match {
      case udaf: PythonUDAF =>
        throw MullionException.unsupported(
          s"${udaf.name} is a pandas aggregate function, which Spark runs over whole groups only. Use Spark's own aggregates, " +
            "or collect the rows of a pane with F.collect_list and apply the function to the result."
        )
      case _ =>
    }
  }

  private def checkSubqueries(expressions: Seq[Expression]): Unit =
    expressions.flatMap(_.find(_.isInstanceOf[SubqueryExpression])).foreach { subquery =>
      throw MullionException.unsupported(
        s"${subquery.sql} is a subquery, and what a pane holds cannot ask other tables. Join the table to the input, or to the " +
          "result of windowed(...).agg(...)."
      )
    }

  private def checkNames(spark: SparkSession, keys: Seq[String], results: Seq[String], late: LatePolicy): Unit = {
    val same = spark.sessionState.conf.resolver
    val names = keys ++ results
    val taken = if (late == LatePolicy.Emit) reserved else reserved.init
    names.find(n => taken.exists(same(n, _))).foreach { name =>
      throw MullionException.invalid(
        s"A column is named '$name', as the result's own column is. Give it another name with .alias('...')."
      )
    }
    names.map(name => names.filter(same(name, _))).find(_.length > 1).foreach { found =>
      throw MullionException.invalid(
        s"The result would have ${found.length} columns named '${found.head}'. Give them different names with .alias('...')."
      )
    }
  }

  /** A key in the one form that equal values share: `0.0` for `-0.0`, maps in order of their keys.
    *
    * @param inSpark
    *   Spark's own rule that puts the maps of grouping expressions in order, which is one for whole plans
    */
  private[mullion] def normalised(
      key: Expression,
      input: LogicalPlan,
      inSpark: LogicalPlan => LogicalPlan = MapSorting.inGroups(_)
  ): Expression = {
    def sorted: Option[Expression] = inSpark(Aggregate(Seq(key), Seq(Alias(key, "key")()), input)) match {
      case Aggregate(Seq(group: Attribute), _, Project(columns, _), _) =>
        columns.collectFirst { case alias: Alias if alias.exprId == group.exprId => alias.child }
      case Aggregate(Seq(group), _, _, _) => Some(group)
      case _                              => None
    }
    val inOrder =
      if (!holdsMaps(key.dataType)) key
      else
        sorted.map(_.transform { case sort: MapSort => SortedMap(sort.base) }).filter(sortsMaps).getOrElse {
          // Equal maps would be as many keys as there are orders of their entries.
          throw MullionException.unsupported(
            s"The key ${plain(key).sql} holds a map (${key.dataType.sql}), and the rule of this Spark that puts maps in " +
              "order is not one that Mullion knows: equal maps would be different keys. Group by the entries of the map " +
              "in order, F.array_sort(F.map_entries(...))."
          )
        }
    NormalizeFloatingNumbers.normalize(inOrder)
  }

  private def holdsMaps(kind: DataType): Boolean = kind.existsRecursively {
    case _: MapType              => true
    case udt: UserDefinedType[_] => holdsMaps(udt.sqlType)
    case _                       => false
  }

  private def sortsMaps(key: Expression): Boolean = key.exists(_.isInstanceOf[SortedMap])

  private[mullion] def checkKey(key: NamedExpression): Unit = {
    if (!UnsafeRowUtils.isBinaryStable(key.dataType))
      throw MullionException.unsupported(
        s"The key ${key.name} has a collation under which different texts are equal (${key.dataType.sql}), and state is looked " +
          s"up by its bytes. Group by a form of it that is equal byte by byte, such as F.lower('${key.name}')."
      )
  }

  /** Spark's state stores take a null of this type for a row that is damaged. */
  private def checkInterval(key: NamedExpression): Unit =
    if (
      key.dataType.existsRecursively(
        _ == CalendarIntervalType
      ) && (key.nullable || key.dataType != CalendarIntervalType)
    )
      throw MullionException.unsupported(
        s"The key ${key.name} is an INTERVAL of months, days and microseconds, which may be null, and Spark's state stores take " +
          "such a null for damage. Group by an interval of make_dt_interval or make_ym_interval, or by its text: " +
          s"F.col('${key.name}').cast('string')."
      )

  /** What Spark computes in nodes of its own, or has in few: Python, and the time of the batch. */
  private def isSparksOwn(e: Expression): Boolean =
    e.isInstanceOf[PythonUDF] ||
      (e.containsPattern(CURRENT_LIKE) && !e.children.exists(_.containsPattern(CURRENT_LIKE)))

  /** What only Spark can compute becomes columns of the input where it stands inside of aggregates. */
  private def hoist(expressions: Seq[AggregateExpression]): (Seq[AggregateExpression], Seq[Alias]) = {
    val hoisted = Seq.newBuilder[Alias]
    val rewritten = expressions.map { e =>
      e.transformDown {
        case own if isSparksOwn(own) =>
          val alias = Alias(own, "computed")()
          hoisted += alias
          alias.toAttribute
      }.asInstanceOf[AggregateExpression]
    }
    (rewritten, hoisted.result())
  }

  /** What the keys are called: in an aggregate Spark's analysis strips their aliases. */
  private def keyNames(df: DataFrame, by: Seq[Column]): Seq[String] =
    if (by.isEmpty) Nil else df.select(by: _*).queryExecution.analyzed.output.map(_.name)

  /** As SQL over the input has it: columns by their own names only, and nothing that is numbered anew each time. */
  private[mullion] def sqlOf(e: Expression): String =
    numberless(e.transform { case a: Attribute => a.withQualifier(Nil) }).sql

  /** Around what has no text in SQL, such as a UDF of Python's, Spark's texts show the numbers of columns and variables
    * where these are no children: the parameters of a function that is another one's name, and variables of lambdas.
    */
  private def numberless(e: Expression): Expression = e match {
    case named: InheritAnalysisRules =>
      PrettyAttribute(named.makeSQLString(named.parameters.map(sqlOf)), e.dataType)
    case lambdas: HigherOrderFunction => PrettyAttribute(e.mapChildren(numberless).sql, lambdas.dataType)
    case other                        => other.mapChildren(numberless)
  }

  private def describe(
      df: DataFrame,
      aggregate: Aggregate,
      keyNames: Seq[String],
      gap: Option[SessionGap],
      trigger: Option[Expression],
      splitColumns: Seq[Attribute],
      dedupe: Option[DedupeBy]
  ): AggregateText = {
    def named(e: NamedExpression): String = {
      // The session's time zone is in casts' texts where it is not the default; names of results are given, never made.
      s"${sqlOf(unalias(e))} AS ${org.apache.spark.sql.catalyst.util.quoteIfNeeded(e.name)}"
    }
    val columns = aggregateColumns(aggregate)
    val keys = aggregate.groupingExpressions.zip(keyNames).map { case (key, name) => Alias(unalias(key), name)() }
    val ids = dedupe.toSeq.flatMap(_.named)
    val read = AttributeSet((keys ++ columns ++ gap ++ trigger ++ splitColumns ++ ids).flatMap(_.references))
    val input = df.queryExecution.analyzed.output.filter(read.contains)
    AggregateText(
      StructType(input.map(a => StructField(a.name, a.dataType, a.nullable))),
      keys.map(named),
      columns.map(named),
      gap.map(g => sqlOf(g.child)),
      trigger.map(sqlOf),
      ids.map(sqlOf)
    )
  }
}
