package org.apache.spark.sql.mullion.builders

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.classic.{DataFrame, ExpressionUtils}
import org.apache.spark.sql.mullion.expressions.{ArrivalNumber, CollectRows, OfRow}
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.rules.{Collected, LatePolicy, RowByRow}
import dev.mullion.windows.spec.{
  AroundWindow,
  CustomWindow,
  GlobalTrigger,
  GlobalWindow,
  GridWindow,
  RowNumberWindow,
  WindowSpec
}

/** Whether the rows of a window must be worked on one by one, in order of arrival, and how. */
object RowByRowBuilder {

  /** Stands for the time of rows that there are none of. */
  private[mullion] val eventTime = "mullion_event_time"

  /** @param delay
    *   how far the stream's watermark is behind, in microseconds
    */
  def apply(window: WindowSpec, options: WindowOptions, delay: => Long): Option[RowByRow] = {
    check(window, options)
    val isNumbered = window.isInstanceOf[RowNumberWindow]
    Option.when(isNumbered || options.running || options.perKey || options.collect.isDefined)(
      RowByRow(
        options.running,
        Option.when(options.perKey)(delay),
        options.collect,
        options.keysFollowWall,
        options.lateBehindClock
      )
    )
  }

  private def check(window: WindowSpec, options: WindowOptions): Unit = {
    def refuse(what: String, why: String): Unit = throw MullionException.unsupported(s"$what: $why")

    val fires = options.refinements
    val oneByOne = Seq(
      Option.when(options.running)("running=True"),
      options.collect.map(_ => "collect()"),
      Option.when(options.perKey)("watermark='per key'")
    ).flatten
    // What is kept row by row can be taken apart at any of them.
    val takenApart = window.isInstanceOf[GridWindow] && options.collect.isDefined && !options.perKey && !options.running
    oneByOne.headOption.foreach { asked =>
      val other =
        if (fires.onTime) Some("on_time=True")
        else if (takenApart) None
        else if (fires.count.isDefined) Some("early=Early(count=...)")
        else if (fires.empty) Some("empty='emit'")
        else Option.unless(fires.accumulate)("accumulate=False")
      other.foreach(what => refuse(s"$what with $asked", s"rows are worked on one by one there. Leave $what out."))
    }

    val shared = window match {
      case _: AroundWindow => Some("the windows of a row are those of rows that came before it and after it")
      case _: CustomWindow => Some("the ranges of a row are taken apart before its key's rows come together")
      case _               => None
    }
    for (why <- shared; asked <- oneByOne.headOption)
      refuse(s"$asked with ${window.describe}", s"$why. Aggregate with agg() and without it.")
    if (options.perKey && window.isInstanceOf[RowNumberWindow])
      refuse("watermark='per key'", s"a window of row numbers (${window.describe}) has no clock. Leave it out.")
    if (options.idleAfter.isDefined && window.isInstanceOf[RowNumberWindow])
      refuse("idle_after", s"a window of row numbers (${window.describe}) has no clock. Leave it out.")
    if (options.perKey && options.time.isEmpty)
      refuse("watermark='per key'", "on processing time (time=None) all keys have the wall clock. Leave it out.")
    if (options.perKey && options.idleAfter.isDefined)
      refuse(
        "idle_after with watermark='per key'",
        "idle_after moves the clock of the stream, and here each key has its own. Leave idle_after out; with " +
          "watermark='per key with wall time' keys' clocks go on with the wall clock."
      )
    if (options.keysFollowWall && options.early.isDefined)
      refuse(
        "early= with watermark='per key with wall time'",
        "a key's panes would fire early only with its rows, and not by the time that passes. Use watermark='per key', or " +
          "leave early out."
      )
    if (options.lateBehindClock && !options.perKey)
      refuse(
        "late_by='watermark'",
        "by the stream's watermark a row is late when its pane has closed, and allowed_lateness says when that is. Use it " +
          "with watermark='per key' or 'per key with wall time', or leave it out."
      )
    if (options.lateBehindClock && options.late.reopens)
      refuse(
        s"late_by='watermark' with late='${options.late.name}'",
        "the pane of a late row may be open yet, and would be there twice. Use late='emit' or late='drop'."
      )
    window match {
      case GlobalWindow(split: GlobalTrigger.Split) if options.running =>
        refuse(
          "running=True with Global.split",
          s"the function ${split.function} sees all rows of a batch at once, and the window of a row is known only then. " +
            "Leave running out."
        )
      case _ =>
    }
    if (options.running && options.collect.isDefined)
      refuse(
        "running=True with collect()",
        "each row would fire all the rows of its pane so far. Collect without running=True, or aggregate with agg()."
      )
    if (options.running && options.early.isDefined)
      refuse("running=True with early=", "each row fires its panes already. Leave early out.")
    if (options.perKey && options.early.exists(_.byWall))
      refuse("early=Early(wall=...) with watermark='per key'", "a key's panes fire by the key's own clock. Use every=.")
    if (options.late == LatePolicy.ReopenEach)
      oneByOne.headOption.foreach(asked =>
        refuse(
          s"late='reopen each' with $asked",
          "rows are worked on one by one there. Use late='reopen', for rows that are late for all of their panes."
        )
      )
    if (options.late == LatePolicy.Reopen && !options.perKey && options.running)
      refuse(
        "late='reopen' with running=True",
        "late rows cannot open panes of their own there. Use late='emit', which gives them out whole, or late='drop'."
      )
  }

  /** The rows of a pane, as an aggregate of it. */
  def collect(df: DataFrame, window: WindowSpec, time: Option[Expression], collected: Collected): Column = {
    if (collected.maxRows <= 0)
      throw MullionException.invalid(
        s"max_rows is ${collected.maxRows}: a pane has at least one row. Give the most rows that a pane may have."
      )
    if (collected.byTime && time.isEmpty)
      throw MullionException.invalid(
        "collect(order='time') wants rows in order of time, and there is no time. Name it with time=, or collect in " +
          "order='arrival'."
      )
    val columns = df.queryExecution.analyzed.output.filterNot(_.name == eventTime)
    val rows = CollectRows(
      columns,
      columns.map(_.name),
      time.getOrElse(Literal(None.orNull, TimestampType)),
      ArrivalNumber(),
      collected,
      window.describe
    )
    ExpressionUtils.column(rows.toAggregateExpression()).as(collected.name)
  }

  /** The column that tells when a global window closes. */
  def trigger(df: DataFrame, window: WindowSpec, column: Option[Column]): Option[Expression] =
    (window, column) match {
      case (GlobalWindow(GlobalTrigger.When), Some(when)) =>
        val condition = ofRow(df, when, "Global.when(...)")
        if (condition.dataType != BooleanType)
          throw MullionException.invalid(
            s"Global.when(${condition.sql}) is of type ${condition.dataType.sql}, and a condition is a BOOLEAN. Give one, such " +
              "as F.col('status') == 'done'."
          )
        Some(condition)
      case (GlobalWindow(GlobalTrigger.Changes), Some(changes)) => Some(ofRow(df, changes, "Global.changes(...)"))
      case _                                                    => None
    }

  /** The columns that a function sees which splits global windows. */
  def splitColumns(df: DataFrame, window: WindowSpec, options: WindowOptions): Seq[Attribute] = window match {
    case GlobalWindow(GlobalTrigger.Split(function)) =>
      if (options.split.isEmpty)
        throw MullionException.invalid(s"Global.split is to ask the function $function, and there is none. Bring it.")
      val all = df.queryExecution.analyzed.output
      val columns =
        if (options.splitColumns.isEmpty) all
        else
          df.select(options.splitColumns: _*).queryExecution.analyzed match {
            case Project(attributes, _) if attributes.forall(_.isInstanceOf[Attribute]) => attributes.map(_.toAttribute)
            case other                                                                  =>
              throw MullionException.invalid(
                s"Global.split shows its function columns of the input, and these are not: ${other.simpleString(5)}. Add what " +
                  "it is to see to the input, with df.withColumn(...), and name that."
              )
          }
      columns.map(_.name).diff(columns.map(_.name).distinct).headOption.foreach { name =>
        throw MullionException.invalid(
          s"Global.split shows its function the input's columns by their names, and '$name' is there twice. Give them " +
            "different names, or name the columns that it is to see, with columns=[...]."
        )
      }
      columns
    case _ => Nil
  }

  private def ofRow(df: DataFrame, column: Column, what: String): Expression = {
    val expression = OfRow(df, column) match {
      case Right(Seq(one)) => one
      case _               =>
        throw MullionException.invalid(
          s"$what holds $column, which is more than one value of each row: an aggregate or a window function. Compute it " +
            "first, as a column of the input, and name that."
        )
    }
    if (!expression.deterministic)
      throw MullionException.invalid(
        s"$what holds $column, which is another value each time that it is computed, and a batch that is tried again would " +
          "close other panes. Make it a column of the source, or of what decides the same each time."
      )
    expression
  }
}
