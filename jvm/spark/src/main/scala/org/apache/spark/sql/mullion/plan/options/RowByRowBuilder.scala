package org.apache.spark.sql.mullion.plan.options

import scala.util.Try

import org.apache.spark.sql.{functions, Column}
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.classic.{DataFrame, ExpressionUtils}
import org.apache.spark.sql.mullion.expressions.columns.OfRow
import org.apache.spark.sql.mullion.expressions.rows.{ArrivalNumber, CollectRows}
import org.apache.spark.sql.types._

import dev.mullion.MullionException
import dev.mullion.windows.rules.{Collected, RowByRow}
import dev.mullion.windows.spec.{
  CountWindow,
  GlobalTrigger,
  GlobalWindow,
  OrderedWindow,
  RowNumberWindow,
  Setting,
  WindowSpec
}

/** The options of row-by-row processing, if the rows of a window must be processed one by one in order of arrival. */
object RowByRowBuilder {

  /** A placeholder for the time of rows, where there are none. */
  private[mullion] val eventTime = "mullion_event_time"

  /** @param delay
    *   the delay of the stream's watermark, in microseconds
    */
  def apply(window: WindowSpec, options: WindowOptions, delay: => Long): Option[RowByRow] = {
    val isNumbered = window.isInstanceOf[RowNumberWindow]
    val isOrdered = window.isInstanceOf[OrderedWindow]
    Option.when(isNumbered || isOrdered || options.running || options.perKey || options.collect.isDefined)(
      RowByRow(
        options.running,
        Option.when(options.perKey)(delay),
        options.collect,
        options.keysFollowWall,
        options.lateBehindClock,
        inOrderOfTime = isOrdered,
        timesOut = window match {
          case count: CountWindow => count.timeout.isDefined
          case _                  => false
        },
        forgetAfter = options.forgetAfter
      )
    )
  }

  /** The rows of a pane, as an aggregate. */
  def collect(df: DataFrame, window: WindowSpec, time: Option[Expression], collected: Collected): Column = {
    if (collected.maxRows <= 0)
      throw MullionException.invalid(
        s"${Setting.maxRows(collected.maxRows)} is not above 0, and a pane has at least one row. Write, for instance, " +
          s"${Setting.maxRows(1000000)}."
      )
    if (collected.byTime && time.isEmpty)
      throw MullionException.invalid(
        s"${Setting.OrderByTime} needs an event time, and the call has ${Setting.ProcessingTime}. Name the time, as in ${Setting.time("ts")}, or leave " +
          "it out for the order of arrival."
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

  /** The column that closes a global window, or ends a session. */
  def trigger(df: DataFrame, window: WindowSpec, column: Option[Column]): Option[Expression] =
    (window, column) match {
      case (GlobalWindow(GlobalTrigger.When, _), Some(when)) if !isOverPane(df, when) =>
        Some(condition(df, when, "Global.when"))
      case (ordered: OrderedWindow, Some(ends)) if ordered.endsWithRow =>
        Some(condition(df, ends, Setting.EndsWith.toString))
      case (GlobalWindow(GlobalTrigger.Changes, _), Some(changes)) =>
        Some(OfRow.one(df, changes, "Global.changes(...) has"))
      case _ => None
    }

  /** The condition over the contents of a pane that closes a global window, as a column with aggregates. A condition
    * over rows is true for the contents once it is true for a row.
    */
  def ofPane(df: DataFrame, window: WindowSpec, options: WindowOptions): Option[Column] = (window, options) match {
    case (GlobalWindow(GlobalTrigger.When, _), _)     => options.trigger.filter(isOverPane(df, _))
    case (global: GlobalWindow, _) if global.endsWith =>
      options.endsWith.map { ends =>
        if (isOverPane(df, ends)) ends
        else {
          condition(df, ends, Setting.EndsWith.toString)
          functions.max(ends)
        }
      }
    case _ => None
  }

  /** True if a column has aggregates: Spark rejects it for single rows, or plans an aggregation. */
  private def isOverPane(df: DataFrame, column: Column): Boolean = Try(OfRow(df, column)).toOption.forall(_.isLeft)

  private def condition(df: DataFrame, column: Column, what: String): Expression = {
    val condition = OfRow.one(df, column, s"$what(...) has")
    if (condition.dataType != BooleanType)
      throw MullionException.invalid(
        s"$what(${condition.sql}) is of type ${condition.dataType.sql}, and a condition is a BOOLEAN. Give one, such " +
          s"as ${Setting.IsDone}."
      )
    condition
  }

  /** The input columns of a function that splits global windows. */
  def splitColumns(df: DataFrame, window: WindowSpec, options: WindowOptions): Seq[Attribute] = window match {
    case GlobalWindow(GlobalTrigger.Split(function), _) =>
      if (options.split.isEmpty)
        throw MullionException.invalid(s"Global.split has no function $function.")
      val all = df.queryExecution.analyzed.output
      val columns =
        if (options.splitColumns.isEmpty) all
        else
          df.select(options.splitColumns: _*).queryExecution.analyzed match {
            case Project(attributes, _) if attributes.forall(_.isInstanceOf[Attribute]) => attributes.map(_.toAttribute)
            case other                                                                  =>
              throw MullionException.invalid(
                s"Global.split passes columns of the input to its function, and these are not: ${other.simpleString(5)}. Add " +
                  "them to the input, with df.withColumn(...), and name them."
              )
          }
      columns.map(_.name).diff(columns.map(_.name).distinct).headOption.foreach { name =>
        throw MullionException.invalid(
          s"Global.split passes the input's columns to its function by name, and '$name' exists twice. Give them " +
            "different names, or name the columns that it needs, with columns=[...]."
        )
      }
      columns
    case _ => Nil
  }
}
