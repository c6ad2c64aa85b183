package org.apache.spark.sql.mullion.plan.build

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.DataFrame
import org.apache.spark.sql.mullion.plan.Shown
import org.apache.spark.sql.mullion.plan.build.analysis.{AnalysedCall, DistinctAggregates, Previous, WindowKeys}
import org.apache.spark.sql.mullion.pyfunction.branch.ProcessedRows
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.rules.LatePolicy
import dev.mullion.windows.spec.Setting

/** Checks of a call that depend on its columns. The first check with an error decides. */
private[build] object CallChecks {
  private type Check = AnalysedCall => Option[MullionException]

  private val all: Seq[Check] = Seq(
    DistinctAggregates.whyIncomparable(_),
    pandasFunction,
    subquery,
    sessionsOfSpark,
    call => names(call.df, call.keys.named.map(_.name), call.results.map(_.name), call.rules.late),
    _.keys.columns.iterator.flatMap(WindowKeys.whyUnstable).nextOption(),
    damagedInState,
    conditionOfPane,
    endBetweenFunctions,
    keysBetweenFunctions,
    Previous.check,
    aheadOfTheWallClock
  )

  def apply(call: AnalysedCall): Unit = all.iterator.flatMap(_(call)).nextOption().foreach(throw _)

  private def pandasFunction(call: AnalysedCall): Option[MullionException] =
    call.functions.map(_.aggregateFunction).collectFirst { case udaf: PythonUDAF =>
      MullionException.unsupported(
        s"${udaf.name} is a pandas aggregate function, which Spark runs over whole groups only. Write it as a " +
          "PythonAggregate, use Spark's own aggregates, or apply a function to the rows of a pane, with collect_list."
      )
    }

  private def subquery(call: AnalysedCall): Option[MullionException] = {
    def in(expressions: Seq[Expression]) =
      expressions.flatMap(_.find(_.isInstanceOf[SubqueryExpression]).map(_.sql)).headOption
    def ofKeys = in(call.aggregate.groupingExpressions).map { subquery =>
      MullionException.unsupported(
        s"A key of ${Setting.By} has a subquery ($subquery), and keys are computed from their row alone. Make it a column of the input " +
          "first, with df.withColumn('key', ...), and group by that."
      )
    }
    def ofAggregates = in(call.aggregateColumns).map { subquery =>
      MullionException.unsupported(
        s"$subquery is a subquery, and aggregates cannot read other tables. Make it a column of the input first, with " +
          "df.withColumn(...), or join the table to the result of windowed(...).agg(...)."
      )
    }
    ofKeys orElse ofAggregates
  }

  /** Spark's `session_window` creates one session per row, and only Spark's own aggregates merge them. */
  private def sessionsOfSpark(call: AnalysedCall): Option[MullionException] = {
    def isMerged(session: Attribute): Boolean = call.input.exists {
      case aggregate: Aggregate => aggregate.groupingExpressions.exists(_.references.contains(session))
      case _                    => false
    }
    def isOfRow(session: Attribute): Boolean = !isMerged(session) && call.input
      .collectFirst {
        case Project(columns, _) if columns.exists(c => c.isInstanceOf[Alias] && c.exprId == session.exprId) =>
          columns.collectFirst { case alias: Alias if alias.exprId == session.exprId => alias.child }
      }
      .flatten
      .exists {
        case of: Attribute => isOfRow(of)
        case _             => true
      }
    val sessions = call.keys.grouping.flatMap(_.references).filter(_.metadata.contains(SessionWindow.marker))
    sessions.find(isOfRow).map { key =>
      MullionException.unsupported(
        s"The key ${key.name} is a session_window of Spark's, which differs for each row until an aggregate of Spark's merges " +
          s"sessions: no two rows would share a pane. Use Session(gap) as the window, and leave session_window out of ${Setting.By}."
      )
    }
  }

  /** A result with two columns of the same name, or with the name of a column that Mullion adds. */
  def names(df: DataFrame, keys: Seq[String], results: Seq[String], late: LatePolicy): Option[MullionException] = {
    val same = df.sparkSession.sessionState.conf.resolver
    val added = Seq("window", "pane") ++ Option.when(late == LatePolicy.Emit)("late_row")
    def isTaken(name: String) = added.exists(same(name, _))
    val names = keys ++ results
    keys
      .find(isTaken)
      .map { name =>
        MullionException.invalid(
          s"${Setting.by(name)} is also the name of a column that the result adds (${added.mkString(", ")}). Rename it first, as in " +
            s"${Setting.byRenamed(name, s"${name}_key")}."
        )
      }
      .orElse(results.find(isTaken).map { name =>
        MullionException.invalid(
          s"A column is named '$name', as a column that the result adds. Give it another name with ${Setting.Renamed}."
        )
      })
      .orElse(names.map(name => names.filter(same(name, _))).find(_.length > 1).map { found =>
        MullionException.invalid(
          s"The result would have ${found.length} columns named '${found.head}'. Give them different names with ${Setting.Renamed}."
        )
      })
  }

  /** Spark's state stores take a null of this type for a damaged row. */
  private def damagedInState(call: AnalysedCall): Option[MullionException] = {
    def mayBeNull(key: Alias) = key.dataType.existsRecursively(_ == CalendarIntervalType) &&
      (key.nullable || key.dataType != CalendarIntervalType)
    call.keys.columns.find(key => call.df.isStreaming && mayBeNull(key)).map { key =>
      MullionException.unsupported(
        s"The key ${key.name} is an INTERVAL of months, days and microseconds, which may be null, and Spark's state stores treat " +
          "such a null as damage. Group by an interval of make_dt_interval or make_ym_interval, or by its text: " +
          s"${Setting.cast(key.name, "string")}."
      )
    }
  }

  /** The condition that closes a global window is computed after each row, in the operator. */
  private def conditionOfPane(call: AnalysedCall): Option[MullionException] = call.closesWhen.flatMap { when =>
    val condition = call.closesWhenOfRows.fold("")(of => Shown.unalias(of).sql)
    if (when.dataType != BooleanType)
      Some(
        MullionException.invalid(
          s"The condition that closes the window is $condition, of type ${when.dataType.sql}, and a condition is a BOOLEAN. Compare " +
            s"it with a value, as in ${Setting.SumAbove}."
        )
      )
    else if (call.options.collect.isDefined)
      Some(
        MullionException.unsupported(
          s"A window that closes by $condition cannot collect its rows, because its aggregates would be kept next to them. Use " +
            "the aggregate collect_list(struct(*)), or a condition over a row."
        )
      )
    else if (when.exists(AnalysedCall.isSparksOwn) || !when.deterministic)
      Some(
        MullionException.unsupported(
          s"The condition $condition is not computed from aggregates and keys alone: Python functions, the time of the batch " +
            "and random numbers are not supported there. Compute a column of the input first."
        )
      )
    else None
  }

  private def keysBetweenFunctions(call: AnalysedCall): Option[MullionException] =
    Option.when(call.knownKeys.isDefined && ProcessedRows.areIn(call.input)) {
      MullionException.unsupported(
        s"${Setting.EmptyFor} is not supported for windows between Python functions, which distribute the keys of their rows. Use " +
          s"${Setting.EmitEmpty}, or window the output of the function."
      )
    }

  private def aheadOfTheWallClock(call: AnalysedCall): Option[MullionException] = {
    def refused(why: String) = MullionException.unsupported(s"${Setting.MaxAhead} $why")
    // Only these have a node that can leave rows out.
    def others = call.input.collectFirst {
      case of: EventTimeWatermark if of.eventTime.dataType != TimestampType => of.eventTime
    }
    if (call.options.maxAhead.isEmpty) None
    else if (!call.df.isStreaming)
      Some(
        refused(
          "compares rows with the wall clock of their micro-batch, and a batch DataFrame has none. Filter its rows instead."
        )
      )
    else if (ProcessedRows.areIn(call.input))
      Some(
        refused(
          "is not supported for windows between Python functions. Filter the rows in the function, or window its output."
        )
      )
    else
      others.map { time =>
        refused(
          s"needs a watermark over a TIMESTAMP, and ${time.name} is ${time.dataType.sql}. Call withWatermark on the rows' time."
        )
      }
  }

  private def endBetweenFunctions(call: AnalysedCall): Option[MullionException] =
    Option.when(call.rules.refinements.atEnd && ProcessedRows.areIn(call.input)) {
      MullionException.unsupported(
        s"${Setting.CloseAtEnd} is not supported for windows between Python functions: these receive only the rows of their batch, and not that " +
          "the input has ended. Leave it out, and close the panes in the function, or window its output."
      )
    }
}
